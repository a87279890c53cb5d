SELECT job_id FROM mainspring_incarnations WHERE job = ?1
