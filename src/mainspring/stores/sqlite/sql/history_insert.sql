INSERT INTO mainspring_history (seq, id, job_id, state, started, finished, todo, keep, parent_id, tail)
VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
