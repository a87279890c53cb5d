-- The usual case: pending, no keys, no parent, nothing happened yet.
INSERT INTO mainspring_live (id, job_id, phase, lane, priority, created, due, foreign_trace, body)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
