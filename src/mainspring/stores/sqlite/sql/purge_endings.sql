DELETE FROM mainspring_endings WHERE job_id = ?1
