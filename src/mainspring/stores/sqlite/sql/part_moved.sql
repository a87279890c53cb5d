-- The columns of a row that goes from live to history.
seq, id, job_id, state, started, finished, todo, keep, parent_id,
due, token, claimed, unique_key, overlap_key, attempts, tail
