-- As live_insert_plain.sql, with a share and perhaps a parent.
INSERT INTO mainspring_live (
    seq, id, job_id, phase, lane, priority, due, unique_key, overlap_key, parent_id, share, tag
) VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
