SELECT group_concat($live)
FROM (SELECT * FROM mainspring_live WHERE phase = 2 AND lease <= ?1 ORDER BY lease LIMIT ?2) AS live
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
