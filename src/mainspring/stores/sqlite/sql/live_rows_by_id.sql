SELECT group_concat($live), json_group_array(live.seq)
FROM mainspring_executions AS execution CROSS JOIN mainspring_live AS live ON live.seq = execution.seq
WHERE execution.id IN (SELECT value FROM json_each(?1))
