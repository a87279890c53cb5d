-- Completed rows that run for the first time, under the owner that claimed them, and have not changed since, are copied
-- to history without a detour through Python. A row of NULLs matches nothing. (Python counts the rows of a statement
-- only if INSERT is its first word.)
INSERT INTO mainspring_history (
    seq, id, job_id, state, started, finished, todo, keep, parent_id,
    due, token, claimed, unique_key, overlap_key, attempts, tail
)
WITH ended (seq, token, at, attempts, tail) AS (VALUES /*rows*/(?, ?, ?, ?, ?)/*end*/)
SELECT
    live.seq, live.id, live.job_id, 'completed', live.started, ended.at, ?, ?, live.parent_id,
    live.due, live.token, live.claimed, live.unique_key, live.overlap_key, ended.attempts, ended.tail
FROM ended CROSS JOIN mainspring_live AS live ON live.seq = ended.seq
WHERE live.owner = ? AND live.phase = 2 AND live.token = ended.token AND live.tail IS NULL AND live.cancel_requested IS NULL
