-- The oldest of the newest executions: from this id on, finished executions of the job are kept.
SELECT x.id FROM (
    (SELECT h.id FROM mainspring.history h
     WHERE h.job_key = (SELECT key FROM mainspring.incarnation WHERE job_id = $1::text) AND h.state = 'completed'
     ORDER BY h.id DESC LIMIT $2::bigint + 1)
    UNION ALL
    (SELECT h.id FROM mainspring.history h
     WHERE h.job_key = (SELECT key FROM mainspring.incarnation WHERE job_id = $1::text)
        AND h.state <> 'completed' AND h.state <> 'skipped'
     ORDER BY h.id DESC LIMIT $2::bigint + 1)
) x ORDER BY x.id DESC OFFSET $2::bigint LIMIT 1
