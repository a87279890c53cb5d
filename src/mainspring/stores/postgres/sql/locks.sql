SELECT name, owner, token, acquired, expires FROM mainspring.lock
WHERE expires > mainspring.now_micros() AND name >= $1::text ORDER BY name LIMIT $2::integer
