DELETE FROM mainspring_audit WHERE id IN (SELECT id FROM mainspring_audit WHERE id < ?1 ORDER BY id LIMIT ?2)
