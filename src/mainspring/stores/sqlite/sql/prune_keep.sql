-- The first of the newest finished executions of the job, which are kept.
SELECT execution.id
FROM mainspring_executions AS execution CROSS JOIN mainspring_history AS history ON history.seq = execution.seq
WHERE execution.job_id = ?1 AND state <> 'skipped' ORDER BY execution.id DESC LIMIT 1 OFFSET ?2
