INSERT OR REPLACE INTO mainspring_locks (name, owner, token, acquired, expires) VALUES (?1, ?2, ?3, ?4, ?5)
