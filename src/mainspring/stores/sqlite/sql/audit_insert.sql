INSERT INTO mainspring_audit (id, at, actor, action, target, before, after, request_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
