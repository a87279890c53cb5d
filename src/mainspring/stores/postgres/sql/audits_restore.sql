WITH added AS (
    INSERT INTO mainspring.audit
    SELECT * FROM json_populate_recordset(NULL::mainspring.audit, $1::text::json) ORDER BY id
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT count(*) FROM added
