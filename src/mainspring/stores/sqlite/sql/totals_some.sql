SELECT $totals FROM mainspring_totals WHERE job_id IN (SELECT value FROM json_each(?1))
