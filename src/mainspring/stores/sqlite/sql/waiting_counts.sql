SELECT job_id, count(*) FROM mainspring_live INDEXED BY mainspring_live_waiting WHERE phase = 3 GROUP BY job_id
