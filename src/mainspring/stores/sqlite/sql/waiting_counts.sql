SELECT job_id, count(*) FROM mainspring_live WHERE phase = 3 GROUP BY job_id
