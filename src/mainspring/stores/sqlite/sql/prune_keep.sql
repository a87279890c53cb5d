-- The oldest of the newest: from this id on, finished executions of the job are kept.
SELECT id FROM mainspring_history WHERE job_id = ?1 AND state <> 'skipped' ORDER BY id DESC LIMIT 1 OFFSET ?2
