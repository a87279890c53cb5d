SELECT job_id FROM mainspring_purges LIMIT 1
