-- Live executions by number. One text with all of them: one step however many rows, so that the lock of the
-- interpreter is given up once and not once per row.
SELECT group_concat($live)
FROM mainspring_live AS live CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
WHERE live.seq IN (SELECT value FROM json_each(?1))
