SELECT last_number FROM mainspring_incarnations WHERE job_id = ?1
