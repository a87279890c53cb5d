DELETE FROM mainspring_job_list WHERE name = ?1
