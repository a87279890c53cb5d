SELECT id, at, actor, action, target, before, after, request_id FROM mainspring_audit
WHERE target = ?1 ORDER BY id DESC LIMIT ?2
