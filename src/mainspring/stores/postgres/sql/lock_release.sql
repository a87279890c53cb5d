WITH clock AS MATERIALIZED (
    SELECT mainspring.now_micros() AS now
), released AS (
    UPDATE mainspring.lock l SET expires = clock.now + $3::bigint FROM clock
    WHERE l.name = $1::text AND ($2::bigint IS NULL OR l.token = $2::bigint) AND l.expires > clock.now
    RETURNING l.token
), audited AS (
    INSERT INTO mainspring.audit
    SELECT a.* FROM json_populate_recordset(NULL::mainspring.audit, $4::text::json) a, released
    ON CONFLICT DO NOTHING
)
SELECT token FROM released
