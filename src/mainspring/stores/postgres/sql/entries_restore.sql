WITH added AS (
    INSERT INTO mainspring.entry
    SELECT * FROM json_populate_recordset(NULL::mainspring.entry, $1::text::json) ORDER BY kind, scope, key
    ON CONFLICT DO NOTHING
    RETURNING key
)
SELECT count(*) FROM added
