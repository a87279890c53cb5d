UPDATE mainspring_job_list SET planned = ?2 WHERE name = ?1 AND planned <> ?2
