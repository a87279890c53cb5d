SELECT name, owner, token, acquired, expires FROM mainspring_locks WHERE expires > ?1 ORDER BY name
