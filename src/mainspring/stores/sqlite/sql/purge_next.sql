SELECT json_group_array(id) FROM (
    SELECT history.id
    FROM mainspring_executions AS execution CROSS JOIN mainspring_history AS history ON history.seq = execution.seq
    WHERE execution.job_id = ?1 ORDER BY execution.id LIMIT ?2
)
