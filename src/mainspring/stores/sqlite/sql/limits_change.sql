-- The body is otherwise as it was inserted: other limits are rare.
UPDATE mainspring_executions
SET body = iif(?2 IS NULL, json_remove(body, '$.limits'), json_set(body, '$.limits', ?2)) WHERE seq = ?1
