-- Settling, with what it frees under limits, and with endings counted by their trigger.

DROP FUNCTION mainspring.unblock(text[], text[], bigint);
DROP FUNCTION mainspring.settle(mainspring.changes, bigint);
DROP FUNCTION mainspring.settle_live(mainspring.changes, bigint);
DROP FUNCTION mainspring.settle_final(mainspring.changes, bigint);
DROP FUNCTION mainspring.settle_usual(mainspring.endings, bigint);

-- The first rows that are parked under a key and wait for a slot, or for a token, are ready again. Whoever calls this
-- has locked the key; a row that somebody else has locked is about to end.
CREATE FUNCTION mainspring.wake(of_key text, with_token boolean, most bigint) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    woken uuid[];
BEGIN
    WITH ready AS (
        UPDATE mainspring.live SET phase = 1, parked = NULL, for_token = NULL
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l WHERE l.parked = of_key AND l.for_token = with_token
            ORDER BY l.priority DESC, coalesce(l.tag, 0), l.id LIMIT most
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id
    )
    SELECT array_agg(r.id) INTO woken FROM ready r;
    RETURN woken;
END
$$;

CREATE FUNCTION mainspring.is_awaited(of_key text, with_token boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM mainspring.live l WHERE l.parked = of_key AND l.for_token = with_token);
END
$$;

-- Running rows with these limits have left their slots, and parked rows the keys they waited for. Returns the rows that
-- are ready for that. Keys are locked in their order, by all who wait for them: a row that is parked at this instant is
-- parked before or after, and in either case seen by one of the two.
CREATE FUNCTION mainspring.leave(left_limits text[], left_keys text[]) RETURNS uuid[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_nestloop = on
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    s record;
    woken uuid[];
BEGIN
    FOR s IN
        SELECT l.key, l.slot_look, l.token_look, k.times
        FROM (
            SELECT x.key, sum(x.times)::integer AS times
            FROM (
                SELECT i.key, i.times FROM mainspring.keys_in(left_limits) i
                UNION ALL
                SELECT u.key, 0 FROM unnest(left_keys) u (key)
            ) x
            GROUP BY x.key
        ) k JOIN mainspring.limit_state l ON l.key = k.key
        ORDER BY l.key FOR UPDATE OF l
    LOOP
        IF s.slot_look IS NOT NULL AND s.times > 0 THEN
            woken := woken || mainspring.wake(s.key, false, s.times);
        END IF;
        UPDATE mainspring.limit_state l SET
            running = greatest(l.running - s.times, 0),
            slot_look = CASE WHEN s.slot_look IS NOT NULL AND mainspring.is_awaited(s.key, false) THEN s.slot_look END,
            token_look = CASE WHEN s.token_look IS NOT NULL AND mainspring.is_awaited(s.key, true) THEN s.token_look END
        WHERE l.key = s.key;
    END LOOP;
    RETURN woken;
END
$$;

-- The same lane for rows that must, or need not, run alone.
CREATE FUNCTION mainspring.in_lane(lane text, alone boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(lane, '/', 1) || '/' || split_part(lane, '/', 2) || CASE
        WHEN split_part(lane, '/', 4) <> '' THEN
            CASE WHEN alone THEN '/alone/' ELSE '//' END || split_part(lane, '/', 4)
        WHEN alone THEN '/alone' ELSE '' END
$$;

-- Rows that a claim deferred because of a key that is free now are ready at once. Whoever has locked one of them is
-- about to change it, and sees the free key himself.
-- `fair` are those that have a share, and need a tag.
CREATE FUNCTION mainspring.unblock(unique_keys text[], overlap_keys text[], now bigint, OUT freed boolean, OUT fair uuid[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH unblocked AS (
        UPDATE mainspring.live SET phase = 1, due = now, blocked = false
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.blocked AND l.due > now AND l.running_unique_key = ANY (unique_keys)
            FOR UPDATE SKIP LOCKED
        )) OR ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.blocked AND l.due > now AND l.running_overlap_key = ANY (overlap_keys)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, share
    )
    SELECT count(*) > 0, array_agg(u.id) FILTER (WHERE u.share IS NOT NULL) INTO freed, fair FROM unblocked u;
END
$$;

-- Changes that leave the row alive, one by one. `applied` are the positions of those applied, `left_limits` the limits
-- of rows that ran until now, `fair` those that need a tag.
CREATE FUNCTION mainspring.settle_live(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT left_limits text[], OUT fair uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    c record;
    later bigint;
    settled record;
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
            lane = CASE WHEN l.alone = (c.flags & 16 = 16) THEN l.lane
                        ELSE mainspring.in_lane(l.lane, c.flags & 16 = 16) END,
            tag = NULL, parked = NULL, for_token = NULL,
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
        RETURNING l.id, l.job_key, l.phase, l.share, l.limits INTO settled;
        IF FOUND THEN
            applied := applied || c.n::integer;
            IF c.flags & 8 = 8 THEN
                INSERT INTO mainspring.delta (job_key, rescued) VALUES (settled.job_key, 1);
            END IF;
            IF settled.share IS NOT NULL AND settled.phase = 1 THEN
                fair := fair || settled.id;
            END IF;
            IF settled.limits IS NOT NULL AND coalesce(c.expect, 2::smallint) = 2 THEN
                left_limits := left_limits || settled.limits;
            END IF;
        END IF;
    END LOOP;
END
$$;

-- Changes that end the row: it goes from the live table to history in one statement, with its statistics.
-- `= ANY` on the primary key visits, and locks, in the order of ids. The position of a row in the batch is found once;
-- what the change says is then taken from the arrays, which is cheaper than a join.
CREATE FUNCTION mainspring.settle_final(
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
            s.duration_ms, s.timed, s.ids, s.dropped, e.id, e.state, e.started, e.finished, batch.errors[e.n], coalesce(batch.failures[e.n], 0)
        FROM summed s LEFT JOIN ended e ON e.n = s.newest
    )
    SELECT array_agg(g.n), array_agg(g.unique_key) FILTER (WHERE g.unique_key IS NOT NULL),
        array_agg(g.overlap_key) FILTER (WHERE g.overlap_key IS NOT NULL),
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
    END IF;
END
$$;

-- As settle_final, with a third of the work left out.
CREATE FUNCTION mainspring.settle_usual(
    batch mainspring.endings, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[], OUT woken uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    unique_keys text[];
    overlap_keys text[];
    left_limits text[];
BEGIN
    WITH gone AS (
        DELETE FROM mainspring.live l
        WHERE l.id = ANY (batch.ids) AND greatest(l.phase, 1::smallint) = 2 AND l.owner = batch.owner
            AND l.token = batch.tokens[CASE cardinality(batch.tokens) WHEN 1 THEN 1 ELSE array_position(batch.ids, l.id) END]
        RETURNING array_position(batch.ids, l.id) AS n, l.id, l.job_key, l.number, l.started, l.unique_key, l.overlap_key,
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
            g.number, g.token, g.job_key, 0, 0, false, g.staged, false, true, g.stray, 'completed', g.unique_key, g.overlap_key,
            g.running_unique_key, g.running_overlap_key, g.cancel_reason, g.tenant, g.parent_id, g.foreign_trace,
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
        SELECT s.job_key, s.trigger, s.completed, s.duration / 1000.0, s.timed, s.ids, batch.ids[s.newest[1]], 'completed',
            s.newest[2], batch.ats[s.newest[1]]
        FROM (
            SELECT g.job_key, g.trigger, count(*) AS completed, coalesce(sum(batch.ats[g.n] - g.started), 0) AS duration,
                count(g.started) AS timed, array_agg(g.id) FILTER (WHERE g.number IS NULL) AS ids,
                max(ARRAY[g.n, g.started]) AS newest  -- positions are in the order of ids
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

-- When some changes end rows and others do not, all rows are locked first, in the order of their ids. Keys of limits are
-- locked last.
CREATE FUNCTION mainspring.settle(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[],
    OUT woken uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    left_limits text[];
    left_keys text[];
    parked_before text[];
    lasting record;
BEGIN
    IF batch.flags IS NOT NULL THEN
        SELECT array_agg(x.parked) FILTER (WHERE x.parked IS NOT NULL) INTO parked_before
        FROM (SELECT l.parked FROM mainspring.live l WHERE l.id = ANY (batch.ids) ORDER BY l.id FOR UPDATE) x;
    END IF;
    SELECT s.applied, s.freed, s.fair, s.left_limits, s.left_keys INTO applied, freed, fair, left_limits, left_keys
    FROM mainspring.settle_final(batch, now) s;
    IF batch.flags IS NOT NULL THEN
        SELECT * INTO lasting FROM mainspring.settle_live(batch, now);
        applied := applied || lasting.applied;
        fair := fair || lasting.fair;
        left_limits := left_limits || lasting.left_limits;
        left_keys := left_keys || parked_before;
    END IF;
    IF left_limits IS NOT NULL OR left_keys IS NOT NULL THEN
        woken := mainspring.leave(left_limits, left_keys);
    END IF;
    IF batch.audits IS NOT NULL THEN
        PERFORM mainspring.write_audits((
            SELECT json_agg(a.audit) FROM json_array_elements(batch.audits) WITH ORDINALITY a (audit, n)
            WHERE a.n = ANY (applied) AND json_typeof(a.audit) = 'object'
        ));
    END IF;
END
$$;
