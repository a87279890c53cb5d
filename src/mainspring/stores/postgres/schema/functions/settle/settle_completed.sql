-- settle_final for first attempts that completed, all of one owner: a third of the work is left out.
CREATE OR REPLACE FUNCTION mainspring.settle_completed(
    batch mainspring.completions, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[],
    OUT woken uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    unique_keys text[];
    overlap_keys text[];
    left_limits text[];
BEGIN
    WITH gone AS (
        DELETE FROM mainspring.live l
        WHERE l.id = ANY (batch.ids) AND greatest(l.phase, 1::smallint) = 2 AND l.owner = batch.owner
            AND l.token = batch.tokens[CASE cardinality(batch.tokens)
                WHEN 1 THEN 1 ELSE width_bucket(l.id, batch.ids) END]
        RETURNING width_bucket(l.id, batch.ids) AS n, l.id, l.job_key, l.number, l.started, l.unique_key, l.overlap_key,
            l.created, l.due, l.claimed, l.cancel_requested, l.token, l.staged, l.stray, l.running_unique_key,
            l.running_overlap_key, l.cancel_reason, l.tenant, l.parent_id, l.foreign_trace, l.attempts, l.result,
            l.counters, l.metadata, l.progress, l.body, l.trigger, l.limits
    ), moved AS (
        INSERT INTO mainspring.history (
            id, created, due, claimed, started, finished, tried, tried_cpu, tried_by, cancel_requested, number, token,
            job_key, failures, crashes, alone, staged, todo, keep, stray, state, unique_key, overlap_key,
            running_unique_key, running_overlap_key, cancel_reason, tenant, parent_id, foreign_trace, attempts, result,
            counters, metadata, progress, trigger, body
        )
        SELECT g.id, g.created, g.due, g.claimed, g.started, batch.ats[g.n],
            CASE WHEN g.attempts IS NULL THEN batch.tries[g.n] END, batch.cpus[g.n], batch.owner, g.cancel_requested,
            g.number, g.token, g.job_key, 0, 0, false, g.staged, false, true, g.stray, 'completed', g.unique_key,
            g.overlap_key, g.running_unique_key, g.running_overlap_key, g.cancel_reason, g.tenant, g.parent_id, g.foreign_trace,
            CASE WHEN g.attempts IS NOT NULL THEN mainspring.with_attempt(g.attempts, concat(
                '{"number":1,"worker":', to_json(batch.owner)::text, ',"started":', batch.tries[g.n],
                ',"ended":', batch.ats[g.n], ',"end":"completed"', ',"cpu_ms":' || batch.cpus[g.n], '}'
            )) END,
            coalesce(batch.results[g.n], g.result), g.counters, g.metadata, g.progress, g.trigger, g.body
        FROM gone g
    ), counted AS (
        INSERT INTO mainspring.delta (
            job_key, trigger, completed, duration_ms, timed, ids, last_id, last_state, last_started, last_finished
        )
        SELECT s.job_key, s.trigger, s.completed, s.duration / 1000, s.timed, s.ids, batch.ids[s.newest], 'completed',
            s.starts[array_position(s.places, s.newest)], batch.ats[s.newest]
        FROM (
            SELECT g.job_key, g.trigger, count(*) AS completed, count(g.started) AS timed,
                coalesce(sum((batch.ats[g.n] - g.started)::double precision), 0) AS duration,
                array_agg(g.id) FILTER (WHERE g.number IS NULL) AS ids,
                max(g.n) AS newest,  -- positions are in the order of ids
                array_agg(g.n) AS places, array_agg(g.started) AS starts
            FROM gone g GROUP BY g.job_key, g.trigger
        ) s
    )
    SELECT array_agg(g.n), array_agg(g.unique_key) FILTER (WHERE g.unique_key IS NOT NULL),
        array_agg(g.overlap_key) FILTER (WHERE g.overlap_key IS NOT NULL),
        array_agg(g.limits) FILTER (WHERE g.limits IS NOT NULL)
    INTO applied, unique_keys, overlap_keys, left_limits FROM gone g;
    freed := false;
    IF unique_keys IS NOT NULL OR overlap_keys IS NOT NULL THEN
        SELECT u.freed, u.fair INTO freed, fair FROM mainspring.unblock(unique_keys, overlap_keys, now) u;
    END IF;
    IF left_limits IS NOT NULL THEN
        woken := mainspring.leave(left_limits, NULL);
    END IF;
END
$$;
