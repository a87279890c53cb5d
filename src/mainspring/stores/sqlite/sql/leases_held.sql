SELECT live.id, token, live.seq
FROM mainspring_executions AS execution CROSS JOIN mainspring_live AS live ON live.seq = execution.seq
WHERE execution.id IN (SELECT value FROM json_each(?1)) AND phase = 2 AND owner = ?2
