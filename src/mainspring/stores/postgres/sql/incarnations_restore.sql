WITH added AS (
    INSERT INTO mainspring.incarnation (job_id, job, last_number)
    SELECT job_id, job, last_number
    FROM json_to_recordset($1::text::json) AS r (job_id text, job text, last_number bigint) ORDER BY job_id
    ON CONFLICT DO NOTHING
    RETURNING key, job_id
), counted AS (
    INSERT INTO mainspring.totals
    SELECT a.key, s.completed, s.partial, s.failed, s.cancelled, s.skipped, s.duration_ms, s.timed, s.rescued,
        nullif(s.last_id, '')::uuid, s.last_state, s.last_started, s.last_finished, s.last_error, s.last_failures
    FROM json_to_recordset($2::text::json) AS s (
        job_id text, completed bigint, partial bigint, failed bigint, cancelled bigint, skipped bigint,
        duration_ms double precision, timed bigint, rescued bigint, last_id text, last_state text,
        last_started bigint, last_finished bigint, last_error text, last_failures integer
    ) JOIN added a ON a.job_id = s.job_id
)
SELECT count(*) FROM added
