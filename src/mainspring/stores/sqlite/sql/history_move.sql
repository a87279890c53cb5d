-- The unchanging part goes over inside the database; only what the ending says comes from outside.
INSERT INTO mainspring_history (
    id, job_id, state, created, started, finished, todo, keep, tenant, parent_id, foreign_trace, body, tail
)
SELECT live.id, live.job_id, ended.column2, live.created, ended.column3, ended.column4, ended.column5, ended.column6,
       live.tenant, live.parent_id, live.foreign_trace, live.body, ended.column7
FROM (VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?)/*end*/) AS ended
CROSS JOIN mainspring_live AS live ON live.id = ended.column1
