-- Changes that end the row: one statement moves it from the live table to history and counts it. `= ANY` on the
-- primary key visits, and locks, rows in the order of their ids. The position of a row in the batch is found by binary
-- search, and the values of its change are read from the arrays: cheaper than a join.
CREATE OR REPLACE FUNCTION mainspring.settle_final(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[],
    OUT left_limits text[], OUT left_keys text[]
) LANGUAGE plpgsql AS $$
DECLARE
    unique_keys text[];
    overlap_keys text[];
    dropped uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM mainspring.live l
        WHERE l.id = ANY (batch.ids)
            AND l.token = batch.tokens[width_bucket(l.id, batch.ids)]
            AND greatest(l.phase, 1::smallint) = coalesce(batch.expects[width_bucket(l.id, batch.ids)], 2::smallint)
            AND l.owner IS NOT DISTINCT FROM batch.owners[
                CASE cardinality(batch.owners) WHEN 1 THEN 1 ELSE width_bucket(l.id, batch.ids) END
            ]
            AND (batch.flags IS NULL OR (
                batch.flags[width_bucket(l.id, batch.ids)] & 1 = 0
                AND (batch.flags[width_bucket(l.id, batch.ids)] & 8 = 0 OR (l.phase = 2 AND l.lease <= now))
            ))
        RETURNING width_bucket(l.id, batch.ids) AS n, l.id, l.job_key, l.number, l.started, l.unique_key, l.overlap_key,
            l.created, l.due, l.claimed, l.cancel_requested, l.token, l.staged, l.stray, l.running_unique_key,
            l.running_overlap_key, l.cancel_reason, l.tenant, l.parent_id, l.foreign_trace, l.attempts, l.result,
            l.counters, l.metadata, l.progress, l.body, l.trigger, l.limits, l.parked, l.phase
    ), moved AS (
        INSERT INTO mainspring.history (
            id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
            alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
            cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
            progress, trigger, body
        )
        SELECT g.id, g.created, g.due, g.claimed, coalesce(batch.starts[g.n], g.started), batch.ats[g.n],
            g.cancel_requested, g.number, g.token, g.job_key, coalesce(batch.failures[g.n], 0),
            coalesce(batch.crashes[g.n], 0), coalesce(batch.flags[g.n] & 16 = 16, false), g.staged,
            coalesce(batch.flags[g.n] & 2 = 2, false), coalesce(batch.flags[g.n] & 4 = 0, true), g.stray,
            coalesce(batch.states[g.n], 'completed'), g.unique_key, g.overlap_key, g.running_unique_key,
            g.running_overlap_key, g.cancel_reason, g.tenant, g.parent_id, g.foreign_trace, batch.reasons[g.n],
            batch.errors[g.n], mainspring.with_attempt(g.attempts, batch.attempts[g.n]),
            coalesce(batch.results[g.n], g.result), coalesce(batch.counters[g.n], g.counters),
            coalesce(batch.metadata[g.n], g.metadata), g.progress, g.trigger, g.body
        FROM gone g WHERE batch.flags IS NULL OR batch.flags[g.n] & 6 <> 4
    ), ended AS (
        SELECT g.n, g.id, g.job_key, g.trigger, g.number, coalesce(batch.states[g.n], 'completed') AS state,
            coalesce(batch.starts[g.n], g.started) AS started, batch.ats[g.n] AS finished,
            batch.flags IS NULL OR batch.flags[g.n] & 6 <> 4 AS kept
        FROM gone g
    ), summed AS (
        SELECT e.job_key, e.trigger,
            count(*) FILTER (WHERE e.state = 'completed') AS completed,
            count(*) FILTER (WHERE e.state = 'partial') AS partial,
            count(*) FILTER (WHERE e.state = 'failed') AS failed,
            count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled,
            count(*) FILTER (WHERE e.state = 'skipped') AS skipped,
            count(*) FILTER (WHERE batch.flags[e.n] & 8 = 8) AS rescued,
            coalesce(sum(e.finished - e.started) FILTER (WHERE e.state <> 'skipped'), 0) / 1000 AS duration_ms,
            count(e.finished - e.started) FILTER (WHERE e.state <> 'skipped') AS timed,
            array_agg(e.id) FILTER (WHERE e.number IS NULL AND e.kept) AS ids,
            count(*) FILTER (WHERE e.number IS NULL AND NOT e.kept) AS dropped,
            max(e.n) FILTER (WHERE e.state <> 'skipped') AS newest  -- positions are in the order of ids
        FROM ended e GROUP BY e.job_key, e.trigger
    ), counted AS (
        INSERT INTO mainspring.delta (
            job_key, trigger, completed, partial, failed, cancelled, skipped, rescued, duration_ms, timed, ids,
            dropped, last_id, last_state, last_started, last_finished, last_error, last_failures
        )
        SELECT s.job_key, s.trigger, s.completed, s.partial, s.failed, s.cancelled, s.skipped, s.rescued,
            s.duration_ms, s.timed, s.ids, s.dropped, e.id, e.state, e.started, e.finished, batch.errors[e.n],
            coalesce(batch.failures[e.n], 0)
        FROM summed s LEFT JOIN ended e ON e.n = s.newest
    )
    SELECT array_agg(g.n),
        array_agg(g.unique_key) FILTER (WHERE g.unique_key IS NOT NULL)
            || array_agg(g.running_unique_key) FILTER (WHERE g.staged AND g.due <= now),  -- it passes its turn on
        array_agg(g.overlap_key) FILTER (WHERE g.overlap_key IS NOT NULL)
            || array_agg(g.running_overlap_key) FILTER (WHERE g.staged AND g.due <= now),
        array_agg(g.id) FILTER (WHERE batch.flags[g.n] & 6 = 4),
        array_agg(g.limits) FILTER (WHERE g.limits IS NOT NULL AND g.phase = 2),
        array_agg(g.parked) FILTER (WHERE g.parked IS NOT NULL)
    INTO applied, unique_keys, overlap_keys, dropped, left_limits, left_keys FROM gone g;
    freed := false;
    IF unique_keys IS NOT NULL OR overlap_keys IS NOT NULL THEN
        SELECT u.freed, u.fair INTO freed, fair FROM mainspring.unblock(unique_keys, overlap_keys, now) u;
    END IF;
    IF dropped IS NOT NULL THEN
        DELETE FROM mainspring.log WHERE execution_id = ANY (dropped);
        DELETE FROM mainspring.label WHERE id = ANY (dropped);
    END IF;
END
$$;
