SELECT 1 FROM mainspring_locks WHERE name = ?1 AND expires > ?2
