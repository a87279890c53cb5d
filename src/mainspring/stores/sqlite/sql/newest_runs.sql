-- A page of the newest executions of a job: what a summary has of them, and whether each is a tenant's child.
SELECT execution.id,
    coalesce(history.state, CASE live.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END),
    coalesce(execution.rare_trigger, 'enqueue'), execution.created, coalesce(history.due, live.due),
    coalesce(history.started, live.started), history.finished, coalesce(history.tail, live.tail) ->> '$.reason',
    execution.parent_id IS NOT NULL AND execution.tenant IS NOT NULL
FROM mainspring_executions AS execution INDEXED BY mainspring_executions_job
LEFT JOIN mainspring_live AS live ON live.seq = execution.seq
LEFT JOIN mainspring_history AS history ON history.seq = execution.seq
WHERE execution.job_id = ?1 AND execution.id < ?2 AND execution.id >= ?3
ORDER BY execution.id DESC LIMIT ?4
