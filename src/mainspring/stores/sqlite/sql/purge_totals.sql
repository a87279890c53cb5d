DELETE FROM mainspring_totals WHERE job_id = ?1
