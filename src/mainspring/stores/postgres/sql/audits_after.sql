SELECT id, at, actor, action, target, before, after, request_id FROM mainspring.audit
WHERE id > $1::text ORDER BY id LIMIT $2::bigint
