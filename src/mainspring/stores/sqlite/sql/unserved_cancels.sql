SELECT group_concat($live)
FROM (
    SELECT * FROM mainspring_live WHERE cancel_requested IS NOT NULL AND phase <> 2 ORDER BY id LIMIT ?1
) AS live
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
