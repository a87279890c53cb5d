WITH clock AS MATERIALIZED (SELECT mainspring.now_micros() AS now)
INSERT INTO mainspring.lock AS l (name, owner, token, acquired, expires)
SELECT $1::text, $2::text, nextval('mainspring.lock_token'), clock.now, clock.now + $3::bigint FROM clock
ON CONFLICT (name) DO UPDATE SET
    owner = excluded.owner, token = excluded.token, acquired = excluded.acquired, expires = excluded.expires
WHERE l.expires <= excluded.acquired
RETURNING name, owner, token, acquired, expires
