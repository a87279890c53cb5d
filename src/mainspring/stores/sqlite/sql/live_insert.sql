-- The unique indexes decide: nothing is inserted if a key is held.
INSERT INTO mainspring_live (
    seq, id, job_id, phase, lane, priority, due, unique_key, overlap_key, token, owner, lease, claimed, started,
    parent_id, running_unique_key, running_overlap_key, staged, cancel_requested, cancel_reason, tail, share
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
