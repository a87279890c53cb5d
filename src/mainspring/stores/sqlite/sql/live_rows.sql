-- Live executions by seq, in the order given. All of them in one text, so that the interpreter's lock is released once
-- and not once per row. New rows get the fields of their claim here: ?2, the beginning of a JSON object. (ltrim removes
-- a brace without counting characters as substr would.)
SELECT group_concat(CASE WHEN $plain THEN ?2 || ltrim(body, '{') ELSE $live END)
FROM json_each(?1) AS wanted
CROSS JOIN mainspring_live AS live ON live.seq = wanted.value
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
