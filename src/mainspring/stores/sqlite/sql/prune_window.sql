-- A stretch of the finished executions of a job, oldest first: which of them may be deleted, the last id and the
-- length of the stretch, and when the earliest of them ended.
SELECT
    json_group_array(id) FILTER (WHERE goes),
    max(id),
    count(*),
    min(finished)
FROM (
    SELECT execution.id, finished,
        todo = 0 AND state IN (SELECT value FROM json_each(?3)) AND (state = 'skipped' OR execution.id < ?4)
        AND (?5 IS NULL OR finished < ?5) AS goes
    FROM mainspring_executions AS execution CROSS JOIN mainspring_history AS history ON history.seq = execution.seq
    WHERE execution.job_id = ?1 AND execution.id > ?2
    ORDER BY execution.id LIMIT ?6
)
