SELECT job_id, count(*) FROM mainspring_live GROUP BY job_id
