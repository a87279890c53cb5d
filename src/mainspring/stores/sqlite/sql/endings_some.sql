SELECT job_id, ending, count FROM mainspring_endings WHERE job_id IN (SELECT value FROM json_each(?1))
