-- The oldest of the newest: from this id on, finished executions of the job are kept.
SELECT execution.id
FROM mainspring_executions AS execution CROSS JOIN mainspring_history AS history ON history.seq = execution.seq
WHERE execution.job_id = ?1 AND state <> 'skipped' ORDER BY execution.id DESC LIMIT 1 OFFSET ?2
