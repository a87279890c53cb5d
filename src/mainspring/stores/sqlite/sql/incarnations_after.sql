SELECT job_id, job, last_number FROM mainspring_incarnations WHERE job_id > ?1 ORDER BY job_id LIMIT ?2
