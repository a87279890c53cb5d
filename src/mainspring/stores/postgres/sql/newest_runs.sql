-- The newest `{limit}` runs of each of these jobs, with ids from $2 on and created at $3 or later. `{first}` and
-- `{further}` stand for newest_runs_page.sql: a page of so many rows, newest first; then small ones, each of which begins
-- below the last row of the page before or, if that is a tenant's child, below its siblings (see
-- stores/common/newest_runs.py). The limit is part of the text: as a parameter, it would make the server plan each time.
WITH RECURSIVE walk AS (
    SELECT i.job_id, i.key, 1 AS number, p.runs, p.found, p.before
    FROM mainspring.incarnation i
    CROSS JOIN LATERAL ({first}) p
    WHERE i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
    UNION ALL
    SELECT w.job_id, w.key, w.number + 1, p.runs, w.found + p.found, p.before
    FROM walk w
    CROSS JOIN LATERAL ({further}) p
    WHERE w.before IS NOT NULL AND w.found < {limit} AND w.number <= {limit}
)
SELECT w.job_id, string_agg(w.runs, ',' ORDER BY w.number) FROM walk w WHERE w.runs IS NOT NULL GROUP BY w.job_id
