-- Rows that run under the token and the owner they were claimed with, and of which nothing was told since, have
-- completed: copied to history without a way through Python. A row of NULLs matches nothing.
INSERT INTO mainspring_history (
    seq, id, job_id, state, started, finished, todo, keep, parent_id,
    due, token, claimed, unique_key, overlap_key, attempts, tail
)
SELECT
    live.seq, live.id, live.job_id, 'completed', live.started, ended.column4, ended.column5, ended.column6,
    live.parent_id, live.due, live.token, live.claimed, live.unique_key, live.overlap_key, ended.column7, ended.column8
FROM (VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?)/*end*/) AS ended
CROSS JOIN mainspring_live AS live ON live.seq = ended.column1
WHERE live.phase = 2 AND live.token = ended.column2 AND live.owner = ended.column3
AND live.tail IS NULL AND live.cancel_requested IS NULL
