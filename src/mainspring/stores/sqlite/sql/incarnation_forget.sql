DELETE FROM mainspring_incarnations WHERE job_id = ?1 AND last_number = ended
