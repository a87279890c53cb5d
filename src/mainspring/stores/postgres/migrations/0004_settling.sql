-- Changes come as arrays, one element per change, in the order of their ids and no id twice. An array left out stands
-- for the usual value: expected running, now completed, no failures. One owner may stand for all.
-- Flags: 1 not final, 2 follow-ups to do, 4 not to be kept, 8 a rescue, 16 to run alone. None at all: NULL.
CREATE TYPE mainspring.changes AS (
    ids uuid[], expects smallint[], tokens integer[], owners text[], states text[], ats bigint[], failures integer[],
    crashes integer[], delays bigint[], starts bigint[], attempts text[], reasons text[], errors text[],
    results text[], counters text[], metadata text[], flags smallint[], audits json
);

CREATE FUNCTION mainspring.with_attempt(attempts text, attempt text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN attempt IS NULL THEN attempts
                  WHEN attempts IS NULL THEN '[' || attempt || ']'
                  ELSE left(attempts, -1) || ',' || attempt || ']' END $$;

-- Rows that a claim deferred because of a key that is free now are ready at once. Whoever has locked one of them is
-- about to change it, and sees the free key himself.
CREATE FUNCTION mainspring.unblock(unique_keys text[], overlap_keys text[], now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE mainspring.live SET phase = 1, due = now, blocked = false
    WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM mainspring.live l
        WHERE l.blocked AND l.due > now AND l.running_unique_key = ANY (unique_keys)
        FOR UPDATE SKIP LOCKED
    )) OR ctid = ANY (ARRAY(
        SELECT l.ctid FROM mainspring.live l
        WHERE l.blocked AND l.due > now AND l.running_overlap_key = ANY (overlap_keys)
        FOR UPDATE SKIP LOCKED
    ));
    RETURN FOUND;
END
$$;

-- Changes that leave the row alive, one by one. Returns the positions of those applied.
CREATE FUNCTION mainspring.settle_live(batch mainspring.changes, now bigint) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    applied integer[];
    c record;
    later bigint;
    job integer;
BEGIN
    FOR c IN
        SELECT * FROM unnest(
            batch.ids, batch.expects, batch.tokens, batch.owners, batch.states, batch.failures, batch.crashes,
            batch.delays, batch.starts, batch.attempts, batch.reasons, batch.errors, batch.results, batch.counters,
            batch.metadata, batch.flags
        ) WITH ORDINALITY AS x (
            id, expect, token, owner, state, failures, crashes, delay, started, attempt, reason, error, result,
            counters, metadata, flags, n
        ) WHERE x.flags & 1 = 1
    LOOP
        later := now + coalesce(c.delay, 0);
        UPDATE mainspring.live l SET
            phase = mainspring.phase_of(c.state, later, now),
            lane = regexp_replace(l.lane, '/alone$', '') || CASE WHEN c.flags & 16 = 16 THEN '/alone' ELSE '' END,
            due = CASE WHEN c.state = 'pending' THEN later ELSE l.due END,
            owner = NULL, lease = NULL, blocked = false, alone = c.flags & 16 = 16,
            claimed = CASE WHEN c.state = 'pending' THEN NULL ELSE l.claimed END,
            progress = CASE WHEN c.state = 'pending' THEN NULL ELSE l.progress END,
            started = coalesce(c.started, l.started), failures = coalesce(c.failures, 0),
            crashes = coalesce(c.crashes, 0), attempts = mainspring.with_attempt(l.attempts, c.attempt),
            reason = c.reason, error = c.error, result = coalesce(c.result, l.result),
            counters = coalesce(c.counters, l.counters), metadata = coalesce(c.metadata, l.metadata)
        WHERE l.id = c.id AND l.token = c.token AND greatest(l.phase, 1::smallint) = coalesce(c.expect, 2::smallint)
            AND l.owner IS NOT DISTINCT FROM c.owner AND (c.flags & 8 = 0 OR (l.phase = 2 AND l.lease <= now))
        RETURNING l.job_key INTO job;
        IF FOUND THEN
            applied := applied || c.n::integer;
            IF c.flags & 8 = 8 THEN
                INSERT INTO mainspring.delta (job_key, rescued) VALUES (job, 1);
            END IF;
        END IF;
    END LOOP;
    RETURN applied;
END
$$;

-- Changes that end the row: it goes from the live table to history in one statement, with its statistics.
-- `= ANY` on the primary key visits, and locks, in the order of ids. The position of a row in the batch is found once;
-- what the change says is then taken from the arrays, which is cheaper than a join.
CREATE FUNCTION mainspring.settle_final(batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    unique_keys text[];
    overlap_keys text[];
    dropped uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM mainspring.live l
        WHERE l.id = ANY (batch.ids)
            AND l.token = batch.tokens[array_position(batch.ids, l.id)]
            AND greatest(l.phase, 1::smallint) = coalesce(batch.expects[array_position(batch.ids, l.id)], 2::smallint)
            AND l.owner IS NOT DISTINCT FROM batch.owners[
                CASE cardinality(batch.owners) WHEN 1 THEN 1 ELSE array_position(batch.ids, l.id) END
            ]
            AND (batch.flags IS NULL OR (
                batch.flags[array_position(batch.ids, l.id)] & 1 = 0
                AND (batch.flags[array_position(batch.ids, l.id)] & 8 = 0 OR (l.phase = 2 AND l.lease <= now))
            ))
        RETURNING array_position(batch.ids, l.id) AS n, l.id, l.job_key, l.number, l.started, l.unique_key, l.overlap_key,
            l.created, l.due, l.claimed, l.cancel_requested, l.token, l.staged, l.stray, l.running_unique_key,
            l.running_overlap_key, l.cancel_reason, l.tenant, l.parent_id, l.foreign_trace, l.attempts, l.result,
            l.counters, l.metadata, l.progress, l.body
    ), moved AS (
        INSERT INTO mainspring.history (
            id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
            alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
            cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
            progress, body
        )
        SELECT g.id, g.created, g.due, g.claimed, coalesce(batch.starts[g.n], g.started), batch.ats[g.n],
            g.cancel_requested, g.number, g.token, g.job_key, coalesce(batch.failures[g.n], 0),
            coalesce(batch.crashes[g.n], 0), coalesce(batch.flags[g.n] & 16 = 16, false), g.staged,
            coalesce(batch.flags[g.n] & 2 = 2, false), coalesce(batch.flags[g.n] & 4 = 0, true), g.stray,
            coalesce(batch.states[g.n], 'completed'), g.unique_key, g.overlap_key, g.running_unique_key,
            g.running_overlap_key, g.cancel_reason, g.tenant, g.parent_id, g.foreign_trace, batch.reasons[g.n],
            batch.errors[g.n], mainspring.with_attempt(g.attempts, batch.attempts[g.n]),
            coalesce(batch.results[g.n], g.result), coalesce(batch.counters[g.n], g.counters),
            coalesce(batch.metadata[g.n], g.metadata), g.progress, g.body
        FROM gone g WHERE batch.flags IS NULL OR batch.flags[g.n] & 6 <> 4
    ), ended AS (
        SELECT g.n, g.id, g.job_key, g.number, coalesce(batch.states[g.n], 'completed') AS state,
            coalesce(batch.starts[g.n], g.started) AS started, batch.ats[g.n] AS finished,
            batch.flags IS NULL OR batch.flags[g.n] & 6 <> 4 AS kept
        FROM gone g
    ), summed AS (
        SELECT e.job_key,
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
        FROM ended e GROUP BY e.job_key
    ), counted AS (
        INSERT INTO mainspring.delta (
            job_key, completed, partial, failed, cancelled, skipped, rescued, duration_ms, timed, ids,
            dropped, last_id, last_state, last_started, last_finished, last_error, last_failures
        )
        SELECT s.job_key, s.completed, s.partial, s.failed, s.cancelled, s.skipped, s.rescued, s.duration_ms, s.timed,
            s.ids, s.dropped, e.id, e.state, e.started, e.finished, batch.errors[e.n], coalesce(batch.failures[e.n], 0)
        FROM summed s LEFT JOIN ended e ON e.n = s.newest
    )
    SELECT array_agg(g.n), array_agg(g.unique_key) FILTER (WHERE g.unique_key IS NOT NULL),
        array_agg(g.overlap_key) FILTER (WHERE g.overlap_key IS NOT NULL),
        array_agg(g.id) FILTER (WHERE batch.flags[g.n] & 6 = 4)
    INTO applied, unique_keys, overlap_keys, dropped FROM gone g;
    freed := false;
    IF unique_keys IS NOT NULL OR overlap_keys IS NOT NULL THEN
        freed := mainspring.unblock(unique_keys, overlap_keys, now);
    END IF;
    IF dropped IS NOT NULL THEN
        DELETE FROM mainspring.log WHERE execution_id = ANY (dropped);
    END IF;
END
$$;

-- The usual endings: each a first try that completed, all of one owner. One token may stand for all. `tries` is when
-- each began.
CREATE TYPE mainspring.endings AS (
    ids uuid[], tokens integer[], owner text, ats bigint[], tries bigint[], cpus double precision[],
    results text[]
);

-- As settle_final, with a third of the work left out.
CREATE FUNCTION mainspring.settle_usual(batch mainspring.endings, now bigint, OUT applied integer[], OUT freed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    unique_keys text[];
    overlap_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM mainspring.live l
        WHERE l.id = ANY (batch.ids) AND greatest(l.phase, 1::smallint) = 2 AND l.owner = batch.owner
            AND l.token = batch.tokens[CASE cardinality(batch.tokens) WHEN 1 THEN 1 ELSE array_position(batch.ids, l.id) END]
        RETURNING array_position(batch.ids, l.id) AS n, l.id, l.job_key, l.number, l.started, l.unique_key, l.overlap_key,
            l.created, l.due, l.claimed, l.cancel_requested, l.token, l.staged, l.stray, l.running_unique_key,
            l.running_overlap_key, l.cancel_reason, l.tenant, l.parent_id, l.foreign_trace, l.attempts, l.result,
            l.counters, l.metadata, l.progress, l.body
    ), moved AS (
        INSERT INTO mainspring.history (
            id, created, due, claimed, started, finished, tried, tried_cpu, tried_by, cancel_requested, number, token,
            job_key, failures, crashes, alone, staged, todo, keep, stray, state, unique_key, overlap_key,
            running_unique_key, running_overlap_key, cancel_reason, tenant, parent_id, foreign_trace, attempts, result,
            counters, metadata, progress, body
        )
        SELECT g.id, g.created, g.due, g.claimed, g.started, batch.ats[g.n],
            CASE WHEN g.attempts IS NULL THEN batch.tries[g.n] END, batch.cpus[g.n], batch.owner, g.cancel_requested,
            g.number, g.token, g.job_key, 0, 0, false, g.staged, false, true, g.stray, 'completed', g.unique_key, g.overlap_key,
            g.running_unique_key, g.running_overlap_key, g.cancel_reason, g.tenant, g.parent_id, g.foreign_trace,
            CASE WHEN g.attempts IS NOT NULL THEN mainspring.with_attempt(g.attempts, concat(
                '{"number":1,"worker":', to_json(batch.owner)::text, ',"started":', batch.tries[g.n],
                ',"ended":', batch.ats[g.n], ',"end":"completed"', ',"cpu_ms":' || batch.cpus[g.n], '}'
            )) END,
            coalesce(batch.results[g.n], g.result), g.counters, g.metadata, g.progress, g.body
        FROM gone g
    ), counted AS (
        INSERT INTO mainspring.delta (
            job_key, completed, duration_ms, timed, ids, last_id, last_state, last_started, last_finished
        )
        SELECT s.job_key, s.completed, s.duration / 1000.0, s.timed, s.ids, batch.ids[s.newest[1]], 'completed',
            s.newest[2], batch.ats[s.newest[1]]
        FROM (
            SELECT g.job_key, count(*) AS completed, coalesce(sum(batch.ats[g.n] - g.started), 0) AS duration,
                count(g.started) AS timed, array_agg(g.id) FILTER (WHERE g.number IS NULL) AS ids,
                max(ARRAY[g.n, g.started]) AS newest  -- positions are in the order of ids
            FROM gone g GROUP BY g.job_key
        ) s
    )
    SELECT array_agg(g.n), array_agg(g.unique_key) FILTER (WHERE g.unique_key IS NOT NULL),
        array_agg(g.overlap_key) FILTER (WHERE g.overlap_key IS NOT NULL)
    INTO applied, unique_keys, overlap_keys FROM gone g;
    freed := false;
    IF unique_keys IS NOT NULL OR overlap_keys IS NOT NULL THEN
        freed := mainspring.unblock(unique_keys, overlap_keys, now);
    END IF;
END
$$;

-- When some changes end rows and others do not, all rows are locked first, in the order of their ids.
CREATE FUNCTION mainspring.settle(batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean)
LANGUAGE plpgsql AS $$
BEGIN
    IF batch.flags IS NOT NULL THEN
        PERFORM FROM mainspring.live l WHERE l.id = ANY (batch.ids) ORDER BY l.id FOR UPDATE;
    END IF;
    SELECT s.applied, s.freed INTO applied, freed FROM mainspring.settle_final(batch, now) s;
    IF batch.flags IS NOT NULL THEN
        applied := applied || mainspring.settle_live(batch, now);
    END IF;
    IF batch.audits IS NOT NULL THEN
        PERFORM mainspring.write_audits((
            SELECT json_agg(a.audit) FROM json_array_elements(batch.audits) WITH ORDINALITY a (audit, n)
            WHERE a.n = ANY (applied) AND json_typeof(a.audit) = 'object'
        ));
    END IF;
END
$$;
