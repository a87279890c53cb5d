SELECT i.job_id, i.job, i.last_number FROM mainspring.incarnation i
WHERE i.job_id > $1::text AND (
    i.last_number > 0
    OR EXISTS (SELECT FROM mainspring.totals t WHERE t.job_key = i.key)
    OR EXISTS (SELECT FROM mainspring.delta d WHERE d.job_key = i.key)
)
ORDER BY i.job_id LIMIT $2::bigint
