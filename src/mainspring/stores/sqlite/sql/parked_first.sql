-- The limits of the first of those that wait for the same.
SELECT json_extract(body, '$.limits')
FROM (SELECT seq FROM mainspring_live WHERE parked = ?1 ORDER BY priority DESC, tag, id LIMIT 1) AS live
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
