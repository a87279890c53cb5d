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
    WHERE $1::text IS NULL OR i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
), newest AS (
    SELECT DISTINCT ON (job_id) job_id, last_id, last_state, last_started, last_finished, last_error, last_failures
    FROM wanted ORDER BY job_id, last_id DESC NULLS LAST
)
SELECT w.job_id, sum(w.completed)::bigint, sum(w.partial)::bigint, sum(w.failed)::bigint, sum(w.cancelled)::bigint,
    sum(w.skipped)::bigint, sum(w.duration_ms), sum(w.timed)::bigint, sum(w.rescued)::bigint,
    coalesce(n.last_id::text, ''), n.last_state, n.last_started, n.last_finished, n.last_error, n.last_failures
FROM wanted w JOIN newest n ON n.job_id = w.job_id
GROUP BY w.job_id, n.last_id, n.last_state, n.last_started, n.last_finished, n.last_error, n.last_failures
