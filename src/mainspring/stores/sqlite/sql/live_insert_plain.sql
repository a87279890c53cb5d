-- The usual case: pending, no keys, no parent, nothing happened yet.
INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?)/*end*/
