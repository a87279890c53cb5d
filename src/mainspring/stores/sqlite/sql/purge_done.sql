DELETE FROM mainspring_purges WHERE job_id = ?1
