INSERT INTO mainspring_executions (
    seq, id, job_id, created, tenant, parent_id, foreign_trace, rare_trigger, stray, body
) VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
