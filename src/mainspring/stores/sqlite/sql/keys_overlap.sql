SELECT
    live.overlap_key, live.id, incarnation.job,
    CASE live.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END,
    live.owner, live.token, coalesce(live.started, execution.created), live.lease
FROM mainspring_live AS live
CROSS JOIN mainspring_executions AS execution ON execution.seq = live.seq
CROSS JOIN mainspring_incarnations AS incarnation ON incarnation.job_id = live.job_id
WHERE live.overlap_key >= ?1 ORDER BY live.overlap_key LIMIT ?2
