SELECT h.id FROM mainspring.history h
WHERE h.job_key = (SELECT key FROM mainspring.incarnation WHERE job_id = $1::text)
    AND h.state = 'completed' AND h.state = $5::text AND NOT h.todo
    AND h.id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    AND ($3::bigint IS NULL OR (h.id < mainspring.id_at($3::bigint + 1000) AND h.finished < $3::bigint))
ORDER BY h.id LIMIT $4::bigint
