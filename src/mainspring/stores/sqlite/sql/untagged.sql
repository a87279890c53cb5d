-- Rows that have become ready and wait for their tag.
SELECT live.seq, lane, priority, share, coalesce(json_extract(body, '$.weight'), 1)
FROM mainspring_live AS live INDEXED BY mainspring_live_untagged
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
WHERE phase = 1 AND tag IS NULL ORDER BY live.id
