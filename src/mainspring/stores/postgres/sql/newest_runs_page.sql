-- One page of newest_runs.sql: rows of the job `{key}` with ids smaller than `{before}`, at most `{most}` of them.
-- Pending and active, completed and other rows have indexes of their own. Pairs are compared, so that the server goes
-- along these indexes: with `job_key = {key}` it expects few rows, and sorts them all.
SELECT string_agg(
        json_build_array(
            y.id, y.state, coalesce(y.trigger, 'enqueue'), y.created, y.due, y.started, y.finished, y.reason
        )::text, ',' ORDER BY y.id DESC
    ) FILTER (WHERE y.wanted) AS runs,
    count(*) FILTER (WHERE y.wanted) AS found,
    CASE WHEN count(*) = {most} THEN (array_agg(y.following ORDER BY y.id))[1] END AS before
FROM (
    SELECT x.*, NOT c.child AND x.created >= $3::bigint AS wanted,
        CASE WHEN c.child THEN least(x.id, (left(x.id::text, 14) || '8000-0000-000000000000')::uuid) ELSE x.id END
            AS following
    FROM (
        (SELECT l.id, 'pending' AS state, l.trigger, l.created, l.due, l.started,
            NULL::bigint AS finished, l.reason, l.parent_id, l.tenant
         FROM mainspring.live l
         WHERE l.phase < 2
            AND (l.job_key, l.id) < ({key}, {before}) AND (l.job_key, l.id) >= ({key}, $2::uuid)
         ORDER BY l.job_key DESC, l.id DESC LIMIT {most})
        UNION ALL
        (SELECT l.id, CASE l.phase WHEN 2 THEN 'running' ELSE 'waiting' END, l.trigger, l.created, l.due, l.started,
            NULL, l.reason, l.parent_id, l.tenant
         FROM mainspring.live l
         WHERE l.phase >= 2
            AND (l.job_key, l.id) < ({key}, {before}) AND (l.job_key, l.id) >= ({key}, $2::uuid)
         ORDER BY l.job_key DESC, l.id DESC LIMIT {most})
        UNION ALL
        (SELECT h.id, h.state, h.trigger, h.created, h.due, h.started,
            h.finished, h.reason, h.parent_id, h.tenant
         FROM mainspring.history h
         WHERE h.state = 'completed'
            AND (h.job_key, h.id) < ({key}, {before}) AND (h.job_key, h.id) >= ({key}, $2::uuid)
         ORDER BY h.job_key DESC, h.id DESC LIMIT {most})
        UNION ALL
        (SELECT h.id, h.state, h.trigger, h.created, h.due, h.started,
            h.finished, h.reason, h.parent_id, h.tenant
         FROM mainspring.history h
         WHERE h.state <> 'completed'
            AND (h.job_key, h.id) < ({key}, {before}) AND (h.job_key, h.id) >= ({key}, $2::uuid)
         ORDER BY h.job_key DESC, h.id DESC LIMIT {most})
    ) x
    CROSS JOIN LATERAL (SELECT x.parent_id IS NOT NULL AND x.tenant IS NOT NULL AS child) c
    ORDER BY x.id DESC LIMIT {most}
) y
