-- The usual case: pending, no parent, nothing happened yet, and keys, if any, that nobody holds.
INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, unique_key, overlap_key)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
