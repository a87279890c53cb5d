SELECT id, at, actor, action, target, before, after, request_id FROM mainspring.audit
WHERE ($1::text IS NULL OR target = $1::text) AND ($3::text IS NULL OR id < $3::text) ORDER BY id DESC LIMIT $2::bigint
