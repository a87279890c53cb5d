SELECT job_id, count(*) FROM mainspring_live
WHERE job_id IN (SELECT value FROM json_each(?1)) GROUP BY job_id
