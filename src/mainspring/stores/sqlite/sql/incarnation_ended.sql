UPDATE mainspring_incarnations SET ended = ended + ?2 WHERE job_id = ?1
