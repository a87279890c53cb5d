-- The unique indexes on the keys decide: nothing is inserted when a key is held.
INSERT INTO mainspring_live (
    id, job_id, phase, lane, priority, created, due, foreign_trace, body,
    token, owner, lease, claimed, started, unique_key, overlap_key, running_unique_key, running_overlap_key, staged,
    cancel_requested, cancel_reason, tenant, parent_id, tail
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
