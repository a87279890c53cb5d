SELECT l.overlap_key, l.id::text, i.job,
    CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END,
    l.owner, l.token, coalesce(l.started, l.created), l.lease
FROM mainspring.live l JOIN mainspring.incarnation i ON i.key = l.job_key
WHERE l.overlap_key >= $1::text ORDER BY l.overlap_key LIMIT $2::integer
