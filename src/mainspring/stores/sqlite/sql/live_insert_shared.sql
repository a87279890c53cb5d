-- As live_insert_plain.sql, with a share.
INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, unique_key, overlap_key, share)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
