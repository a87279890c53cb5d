-- Copied rows, the ids of those that are not kept, and log lines. Executions that exist already are skipped with their
-- log lines. A row may have `labels`. Returns how many were new.
CREATE OR REPLACE FUNCTION mainspring.restore(rows json, unkept uuid[], log_lines json) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    added uuid[];
    special uuid[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT r.*, i.key AS job_key, mainspring.phase_of(r.state, r.due, mainspring.now_micros()) AS phase,
            coalesce(r.state, 'pending') IN ('pending', 'running', 'waiting') AS lives
        FROM json_populate_recordset(NULL::mainspring.incoming, rows) r
        JOIN mainspring.incarnation i ON i.job_id = r.job_id
        WHERE NOT EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id)
            AND NOT EXISTS (SELECT FROM mainspring.history h WHERE h.id = r.id)
    ), live AS (
        INSERT INTO mainspring.live (
            id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
            token, owner, lease, claimed, started, failures, crashes, alone, staged, unique_key, overlap_key,
            running_unique_key, running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result,
            counters, metadata, progress, trigger, share, weight, limits
        )
        SELECT id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number,
            coalesce(stray, false), coalesce(token, 0), owner, lease, claimed, started, coalesce(failures, 0),
            coalesce(crashes, 0), coalesce(alone, false), coalesce(staged, false), unique_key, overlap_key,
            running_unique_key, running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result,
            counters, metadata, progress, mainspring.trigger_of(body), share, weight, limits
        FROM given WHERE lives
    ), ended AS (
        INSERT INTO mainspring.history (
            id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
            alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
            cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
            progress, trigger, body
        )
        SELECT id, created, due, claimed, started, finished, cancel_requested, number, coalesce(token, 0), job_key,
            coalesce(failures, 0), coalesce(crashes, 0), coalesce(alone, false), coalesce(staged, false),
            coalesce(todo, false), id <> ALL (unkept), coalesce(stray, false), state, unique_key, overlap_key,
            running_unique_key, running_overlap_key, cancel_reason, tenant, parent_id, foreign_trace, reason, error,
            attempts, result, counters, metadata, progress, mainspring.trigger_of(body), body
        FROM given WHERE NOT lives
    ), lines AS (
        INSERT INTO mainspring.log (execution_id, seq, at, level, message, logger)
        SELECT l.execution_id, l.seq, l.at, l.level, l.message, coalesce(l.logger, '')
        FROM json_to_recordset(log_lines) AS l (
            execution_id uuid, seq integer, at bigint, level text, message text, logger text
        ) WHERE l.execution_id IN (SELECT id FROM given)
    )
    SELECT array_agg(g.id), array_agg(g.id) FILTER (WHERE g.lives AND (g.share IS NOT NULL OR g.limits IS NOT NULL))
    INTO added, special FROM given g;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    PERFORM mainspring.add_labels(array_agg(x.id), array_agg(l.label))
    FROM json_to_recordset(rows) AS x (id uuid, labels json)
    CROSS JOIN LATERAL json_array_elements_text(x.labels) l (label)
    WHERE x.id = ANY (added)
    HAVING count(*) > 0;
    RETURN coalesce(cardinality(added), 0);
END
$$;
