SELECT id, at, actor, action, target, before, after, request_id FROM mainspring_audit ORDER BY id DESC LIMIT ?1
