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
), triggered AS (
    INSERT INTO mainspring.trigger_totals
    SELECT a.key, split_part(t.ending, ':', 1), coalesce(sum(t.times) FILTER (WHERE t.state = 'completed'), 0),
        coalesce(sum(t.times) FILTER (WHERE t.state = 'partial'), 0),
        coalesce(sum(t.times) FILTER (WHERE t.state = 'failed'), 0),
        coalesce(sum(t.times) FILTER (WHERE t.state = 'cancelled'), 0),
        coalesce(sum(t.times) FILTER (WHERE t.state = 'skipped'), 0)
    FROM json_to_recordset($2::text::json) AS s (job_id text, by_trigger json)
    JOIN added a ON a.job_id = s.job_id
    CROSS JOIN LATERAL (
        SELECT e.key AS ending, split_part(e.key, ':', 2) AS state, e.value::bigint AS times
        FROM json_each_text(s.by_trigger) e
    ) t
    GROUP BY a.key, split_part(t.ending, ':', 1)
)
SELECT count(*) FROM added
