WITH given AS MATERIALIZED (
    SELECT * FROM json_populate_recordset(NULL::mainspring.job, $1::text::json) ORDER BY name
), known AS (
    INSERT INTO mainspring.incarnation (job_id, job) SELECT id, name FROM given ON CONFLICT DO NOTHING
), added AS (
    INSERT INTO mainspring.job SELECT * FROM given ON CONFLICT DO NOTHING RETURNING name
)
SELECT count(*) FROM added
