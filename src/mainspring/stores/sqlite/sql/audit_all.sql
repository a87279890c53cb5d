-- Without a cursor the id is compared with a blob, which is greater than any text.
SELECT id, at, actor, action, target, before, after, request_id FROM mainspring_audit
WHERE id < ifnull(?2, x'') ORDER BY id DESC LIMIT ?1
