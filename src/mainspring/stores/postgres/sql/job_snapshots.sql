-- Jobs with their statistics and live executions, in one statement and so in one snapshot. `{jobs}` and `{stats}` stand
-- for the statements of these names.
WITH job ({columns}) AS MATERIALIZED (
    {jobs}
), stats ({totals}) AS (
    {stats}
)
SELECT job.*, stats.*, l.pending, l.running, l.waiting, n.id::text, n.failures, n.started
FROM job
LEFT JOIN stats ON stats.job_id = job.id
LEFT JOIN mainspring.incarnation i ON i.job_id = job.id
CROSS JOIN LATERAL (
    SELECT (SELECT count(*) FROM mainspring.live l WHERE l.phase < 2 AND l.job_key = i.key) AS pending,
        count(*) FILTER (WHERE l.phase = 2) AS running, count(*) FILTER (WHERE l.phase = 3) AS waiting
    FROM mainspring.live l WHERE l.phase >= 2 AND l.job_key = i.key
) l
LEFT JOIN LATERAL (
    SELECT x.id, x.failures, x.started FROM (
        (SELECT l.id, l.failures, l.started FROM mainspring.live l
            WHERE l.phase < 2 AND l.job_key = i.key ORDER BY l.id DESC LIMIT 1)
        UNION ALL
        (SELECT l.id, l.failures, l.started FROM mainspring.live l
            WHERE l.phase >= 2 AND l.job_key = i.key ORDER BY l.id DESC LIMIT 1)
    ) x ORDER BY x.id DESC LIMIT 1
) n ON true
ORDER BY job.name
