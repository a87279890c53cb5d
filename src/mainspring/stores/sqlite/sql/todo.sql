SELECT group_concat($history)
FROM (SELECT * FROM mainspring_history WHERE todo = 1 AND id > ?2 ORDER BY id LIMIT ?1) AS history
CROSS JOIN mainspring_executions AS execution ON execution.seq = history.seq
