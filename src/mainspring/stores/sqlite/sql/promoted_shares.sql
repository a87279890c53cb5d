-- The next rows with a share.
SELECT live.seq, lane, priority, share, coalesce(json_extract(body, '$.weight'), 1), live.id
FROM (
    SELECT seq, id, lane, priority, share FROM mainspring_live WHERE phase = 0 AND due <= ?1 ORDER BY due LIMIT ?2
) AS live
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
WHERE share IS NOT NULL
