WITH clock AS MATERIALIZED (SELECT mainspring.now_micros() AS now)
UPDATE mainspring.lock l SET expires = clock.now + $3::bigint FROM clock
WHERE l.name = $1::text AND l.token = $2::bigint AND l.expires > clock.now
RETURNING l.token
