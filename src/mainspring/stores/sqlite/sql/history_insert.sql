INSERT INTO mainspring_history (
    id, job_id, state, created, started, finished, todo, keep, tenant, parent_id, foreign_trace, body, tail
) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)
