-- The usual case: a new pending row without a parent, whose keys, if any, are free.
INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, unique_key, overlap_key)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
