-- Live executions by number. One text with all of them: one step however many rows, so that the lock of the
-- interpreter is given up once and not once per row. Those to which nothing has happened get the terms of their claim
-- here, ?2, the end of a JSON object.
SELECT group_concat(CASE WHEN $plain THEN substr(body, 1, length(body) - 1) || ?2 ELSE $live END)
FROM mainspring_live AS live CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
WHERE live.seq IN (SELECT value FROM json_each(?1))
