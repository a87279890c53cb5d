SELECT name, owner, token, acquired, expires FROM mainspring.lock
WHERE expires > mainspring.now_micros() ORDER BY name
