SELECT name, owner, token, acquired, expires FROM mainspring_locks WHERE expires > ?1 AND name >= ?2 ORDER BY name LIMIT ?3
