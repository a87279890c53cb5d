SELECT id, at, actor, action, target, before, after, request_id FROM mainspring_audit
WHERE target = ?1 AND id < ifnull(?3, x'') ORDER BY id DESC LIMIT ?2
