SELECT i.job_id, x.pending, x.running, x.waiting
FROM (
    SELECT l.job_key, count(*) FILTER (WHERE l.phase < 2) AS pending, count(*) FILTER (WHERE l.phase = 2) AS running,
        count(*) FILTER (WHERE l.phase = 3) AS waiting
    FROM mainspring.live l GROUP BY l.job_key
) x JOIN mainspring.incarnation i ON i.key = x.job_key
