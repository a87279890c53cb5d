SELECT job_id, last_number - ended FROM mainspring_incarnations
WHERE job_id IN (SELECT value FROM json_each(?1)) AND last_number > ended
