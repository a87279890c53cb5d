-- Live executions by number, in the order given. One text with all of them: one step however many rows, so that the
-- lock of the interpreter is given up once and not once per row. Those to which nothing has happened get the terms of
-- their claim here: ?2, the beginning of a JSON object. (ltrim takes off a brace without counting characters as substr
-- would.)
SELECT group_concat(CASE WHEN $plain THEN ?2 || ltrim(body, '{') ELSE $live END)
FROM json_each(?1) AS wanted
CROSS JOIN mainspring_live AS live ON live.seq = wanted.value
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
