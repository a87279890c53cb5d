SELECT history.id
FROM mainspring_executions AS execution CROSS JOIN mainspring_history AS history ON history.seq = execution.seq
WHERE execution.id IN (SELECT value FROM json_each(?1)) AND keep = 0
