SELECT job_id, count(*) FROM mainspring_live WHERE phase = 2 GROUP BY job_id
