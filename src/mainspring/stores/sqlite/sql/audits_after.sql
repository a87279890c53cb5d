SELECT id, at, actor, action, target, before, after, request_id FROM mainspring_audit
WHERE id > ?1 ORDER BY id LIMIT ?2
