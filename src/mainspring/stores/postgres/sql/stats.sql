-- Totals and what is not folded yet, in one snapshot. `last` is that of the newest id.
WITH parts AS (
    SELECT job_key, completed, partial, failed, cancelled, skipped, duration_ms, timed, rescued,
        last_id, last_state, last_started, last_finished, last_error, last_failures
    FROM mainspring.totals
    UNION ALL
    SELECT job_key, completed, partial, failed, cancelled, skipped, duration_ms, timed, rescued,
        last_id, last_state, last_started, last_finished, last_error, last_failures
    FROM mainspring.delta
), wanted AS (
    SELECT p.*, i.job_id FROM parts p JOIN mainspring.incarnation i ON i.key = p.job_key
    WHERE $1::text IS NULL OR p.job_key = ANY (ARRAY(
        SELECT i.key FROM mainspring.incarnation i
        WHERE i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
    ))
), newest AS (
    SELECT DISTINCT ON (job_id) job_id, last_id, last_state, last_started, last_finished, last_error, last_failures
    FROM wanted ORDER BY job_id, last_id DESC NULLS LAST
), triggered AS (
    SELECT t.job_key, t.trigger, sum(t.completed) AS completed, sum(t.partial) AS partial, sum(t.failed) AS failed,
        sum(t.cancelled) AS cancelled, sum(t.skipped) AS skipped
    FROM (
        SELECT job_key, trigger, completed, partial, failed, cancelled, skipped FROM mainspring.trigger_totals
        UNION ALL
        SELECT job_key, coalesce(trigger, 'enqueue'), completed, partial, failed, cancelled, skipped
            FROM mainspring.delta
    ) t
    WHERE $1::text IS NULL OR t.job_key = ANY (ARRAY(
        SELECT i.key FROM mainspring.incarnation i
        WHERE i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
    ))
    GROUP BY t.job_key, t.trigger
), by_trigger AS (
    SELECT t.job_key, json_object_agg(t.trigger || ':' || c.state, c.times)::text AS by_trigger
    FROM triggered t CROSS JOIN LATERAL (VALUES
        ('completed', t.completed), ('partial', t.partial), ('failed', t.failed), ('cancelled', t.cancelled),
        ('skipped', t.skipped)
    ) c (state, times)
    WHERE c.times > 0 GROUP BY t.job_key
)
SELECT w.job_id, sum(w.completed)::bigint, sum(w.partial)::bigint, sum(w.failed)::bigint, sum(w.cancelled)::bigint,
    sum(w.skipped)::bigint, sum(w.duration_ms), sum(w.timed)::bigint, sum(w.rescued)::bigint,
    coalesce(n.last_id::text, ''), n.last_state, n.last_started, n.last_finished, n.last_error, n.last_failures,
    min(t.by_trigger)
FROM wanted w JOIN newest n ON n.job_id = w.job_id LEFT JOIN by_trigger t ON t.job_key = w.job_key
GROUP BY w.job_id, n.last_id, n.last_state, n.last_started, n.last_finished, n.last_error, n.last_failures
