-- A finished execution, with its statistics. False when its id exists already.
CREATE OR REPLACE FUNCTION mainspring.insert_finished(r mainspring.incoming, job integer) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    its_trigger text := mainspring.trigger_of(r.body);
BEGIN
    INSERT INTO mainspring.history (
        id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
        alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
        cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
        progress, trigger, body
    ) VALUES (
        r.id, r.created, r.due, r.claimed, r.started, r.finished, r.cancel_requested, r.number,
        coalesce(r.token, 0), job, coalesce(r.failures, 0), coalesce(r.crashes, 0), coalesce(r.alone, false),
        coalesce(r.staged, false), coalesce(r.todo, false), true, coalesce(r.stray, false), r.state, r.unique_key,
        r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_reason, r.tenant, r.parent_id, r.foreign_trace,
        r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress, its_trigger, r.body
    ) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF r.state = 'skipped' THEN
        INSERT INTO mainspring.delta (job_key, trigger, skipped, ids)
        VALUES (job, its_trigger, 1, CASE WHEN r.number IS NULL THEN ARRAY[r.id] END);
        RETURN true;
    END IF;
    INSERT INTO mainspring.delta (
        job_key, trigger, completed, partial, failed, cancelled, duration_ms, timed,
        last_id, last_state, last_started, last_finished, last_error, last_failures, ids
    ) VALUES (
        job, its_trigger, (r.state = 'completed')::integer, (r.state = 'partial')::integer,
        (r.state = 'failed')::integer, (r.state = 'cancelled')::integer, coalesce((r.finished - r.started) / 1000.0, 0),
        (r.finished IS NOT NULL AND r.started IS NOT NULL)::integer, r.id, r.state, r.started, r.finished, r.error,
        coalesce(r.failures, 0), CASE WHEN r.number IS NULL THEN ARRAY[r.id] END
    );
    RETURN true;
END
$$;
