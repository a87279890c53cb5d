-- Adding executions with their trigger, share and limits.

-- Rows of a lane that have a share are claimed in the order of their tags. A row that becomes ready goes to the front
-- of its lane and priority, or behind the last one of its share by as much as its weight says. The rows given have no
-- tag yet; those without a share get none. Phases are asked for in a way that no index on ready rows answers: to find
-- the rows by their ids is cheaper.
CREATE FUNCTION mainspring.give_tags(ready uuid[]) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_nestloop = on
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
BEGIN
    WITH newcomer AS MATERIALIZED (
        SELECT l.id, l.lane, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step
        FROM mainspring.live l WHERE l.id = ANY (ready) AND greatest(l.phase, 0::smallint) = 1 AND l.share IS NOT NULL AND l.tag IS NULL
    ), stepped AS (
        SELECT n.*, row_number() OVER its AS nth, sum(n.step) OVER its - first_value(n.step) OVER its AS behind
        FROM newcomer n WINDOW its AS (PARTITION BY n.lane, n.priority, n.share ORDER BY n.id)
    ), placed AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.nth = 1 THEN greatest(coalesce((
            SELECT l.tag FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = s.lane AND l.priority = s.priority
            ORDER BY l.tag LIMIT 1
        ), 0), s.step + (
            SELECT l.tag FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = s.lane AND l.priority = s.priority AND l.share = s.share
            ORDER BY l.tag DESC LIMIT 1
        )) END AS first
        FROM stepped s
    ), tagged AS MATERIALIZED (
        SELECT p.id, p.behind + first_value(p.first) OVER (
            PARTITION BY p.lane, p.priority, p.share ORDER BY p.id
        ) AS tag FROM placed p
    )
    UPDATE mainspring.live l SET tag = t.tag FROM tagged t WHERE l.id = t.id;
END
$$;

-- The keys that these limits name, and how many of them do; each of them is a JSON list that may name a key twice.
CREATE FUNCTION mainspring.keys_in(all_limits text[]) RETURNS TABLE (key text, times bigint) LANGUAGE sql IMMUTABLE AS $$
    SELECT x.key, count(*) FROM (
        SELECT DISTINCT a.n, e->>'key' COLLATE "C" AS key
        FROM unnest(all_limits) WITH ORDINALITY a (limits, n) CROSS JOIN LATERAL json_array_elements(a.limits::json) e
    ) x GROUP BY x.key ORDER BY x.key
$$;

-- Of rows just added, those that have a share or limits.
CREATE FUNCTION mainspring.special(
    plain mainspring.incoming[], known uuid[], others mainspring.incoming[], outcomes json
) RETURNS uuid[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(x.id) FROM (
        SELECT r.id FROM unnest(plain) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.id <> ALL (coalesce(known, '{}'))
        UNION ALL
        SELECT r.id FROM ROWS FROM (unnest(others), json_array_elements(outcomes)) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.value->>0 = 'added'
    ) x
$$;

-- They enter, all of a batch together: ready ones take their place, running ones their slots.
CREATE FUNCTION mainspring.enter(added uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held text[];
BEGIN
    PERFORM mainspring.give_tags(added);
    SELECT array_agg(l.limits) INTO held
    FROM mainspring.live l WHERE l.id = ANY (added) AND greatest(l.phase, 0::smallint) = 2 AND l.limits IS NOT NULL;
    IF held IS NOT NULL THEN
        INSERT INTO mainspring.limit_state AS s (key, running) SELECT k.key, k.times FROM mainspring.keys_in(held) k
        ON CONFLICT (key) DO UPDATE SET running = s.running + excluded.running;
    END IF;
END
$$;

-- Live rows that ask for no key: all in one statement. Returns the ids that were known already.
CREATE OR REPLACE FUNCTION mainspring.add_plain(rows mainspring.incoming[], now bigint) RETURNS uuid[] LANGUAGE plpgsql
AS $$
DECLARE
    added uuid[];
    ended uuid[];
BEGIN
    FOR try IN 1..2 LOOP
        WITH inserted AS (
            INSERT INTO mainspring.live (
                id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
                token, owner, lease, claimed, started, failures, crashes, alone, staged, running_unique_key,
                running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result, counters,
                metadata, progress, trigger, share, weight, limits
            )
            SELECT r.id, i.key, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
                   r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
                   coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
                   coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.running_unique_key,
                   r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error, r.attempts, r.result,
                   r.counters, r.metadata, r.progress, mainspring.trigger_of(r.body), r.share, r.weight, r.limits
            FROM unnest(rows) r
            CROSS JOIN LATERAL (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = r.job_id LIMIT 1) i
            ON CONFLICT (id) DO NOTHING
            RETURNING id
        )
        SELECT added || array_agg(id) INTO added FROM inserted;
        EXIT WHEN cardinality(added) = cardinality(rows);
        PERFORM mainspring.know_jobs(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    END LOOP;
    ended := mainspring.take_back(added);
    IF ended IS NULL AND cardinality(added) = cardinality(rows) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT array_agg(r.id) FROM unnest(rows) r
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
    );
END
$$;

-- A finished execution as it is, with its statistics. False when its id is known already.
CREATE OR REPLACE FUNCTION mainspring.record(r mainspring.incoming, job integer) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    told_by text := mainspring.trigger_of(r.body);
BEGIN
    INSERT INTO mainspring.history (
        id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
        alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
        cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
        progress, trigger, body
    ) VALUES (
        r.id, r.created, r.due, r.claimed, r.started, r.finished, r.cancel_requested, r.number,
        coalesce(r.token, 0), job, coalesce(r.failures, 0), coalesce(r.crashes, 0), coalesce(r.alone, false),
        coalesce(r.staged, false), coalesce(r.todo, false), true, coalesce(r.stray, false), r.state, r.unique_key, r.overlap_key,
        r.running_unique_key, r.running_overlap_key, r.cancel_reason, r.tenant, r.parent_id, r.foreign_trace,
        r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress, told_by, r.body
    ) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF r.state = 'skipped' THEN
        INSERT INTO mainspring.delta (job_key, trigger, skipped, ids)
        VALUES (job, told_by, 1, CASE WHEN r.number IS NULL THEN ARRAY[r.id] END);
        RETURN true;
    END IF;
    INSERT INTO mainspring.delta (
        job_key, trigger, completed, partial, failed, cancelled, duration_ms, timed,
        last_id, last_state, last_started, last_finished, last_error, last_failures, ids
    ) VALUES (
        job, told_by, (r.state = 'completed')::integer, (r.state = 'partial')::integer, (r.state = 'failed')::integer,
        (r.state = 'cancelled')::integer, coalesce((r.finished - r.started) / 1000.0, 0),
        (r.finished IS NOT NULL AND r.started IS NOT NULL)::integer, r.id, r.state, r.started, r.finished, r.error,
        coalesce(r.failures, 0), CASE WHEN r.number IS NULL THEN ARRAY[r.id] END
    );
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION mainspring.insert_live(r mainspring.incoming, job integer, now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.live (
        id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
        token, owner, lease, claimed, started, failures, crashes, alone, staged, unique_key, overlap_key,
        running_unique_key, running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result,
        counters, metadata, progress, trigger, share, weight, limits
    ) VALUES (
        r.id, job, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
        r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
        coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
        coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.unique_key, r.overlap_key,
        r.running_unique_key, r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error,
        r.attempts, r.result, r.counters, r.metadata, r.progress, mainspring.trigger_of(r.body), r.share, r.weight,
        r.limits
    ) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- `known` are the ids of plain rows that were known already, `outcomes` what became of the others.
CREATE OR REPLACE FUNCTION mainspring.add(plain json, others json, audits json, OUT known uuid[], OUT outcomes json)
LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    plain_rows mainspring.incoming[] := mainspring.incoming(plain);
    other_rows mainspring.incoming[] := mainspring.incoming(others);
    special uuid[];
BEGIN
    IF plain IS NOT NULL THEN
        known := mainspring.add_plain(plain_rows, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.add_each(other_rows, now);
    END IF;
    special := mainspring.special(plain_rows, known, other_rows, outcomes);
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter(special);
    END IF;
    IF audits IS NOT NULL AND (
        json_array_length(plain) > coalesce(cardinality(known), 0)
        OR EXISTS (SELECT FROM json_array_elements(outcomes) one WHERE one->>0 IN ('added', 'skipped'))
    ) THEN
        PERFORM mainspring.write_audits(audits);
    END IF;
END
$$;

-- Those not inserted are looked at one by one. Returns [[position, outcome, holder], ...] of them, NULL when there are
-- none. Waits hardly at all for a key that an open transaction is about to take: the caller asks again, and holds no
-- connection meanwhile that others could use. `news` are told to who listens, with the commit.
CREATE OR REPLACE FUNCTION mainspring.add_bare(rows mainspring.bare, news text) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET lock_timeout = '10ms'
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keys integer[] := mainspring.keys_of(rows.job_ids, rows.jobs);
    its_key integer := keys[1];
    its_lane text := rows.lanes[1];
    its_priority integer := rows.priorities[1];
    added uuid[];
    ended uuid[];
BEGIN
    IF rows.unique_keys IS NULL THEN
        BEGIN
            INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, foreign_trace, trigger, body)
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key), coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.foreign_trace, mainspring.trigger_of(r.body), r.body
            FROM unnest(
                rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces
            ) r (id, created, body, key, lane, priority, due, foreign_trace);
            added := rows.ids;
        EXCEPTION
            WHEN unique_violation THEN NULL;
        END;
    END IF;
    IF added IS NULL THEN
        WITH inserted AS (
            INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, trigger, body)
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key), coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.unique_key, r.foreign_trace, mainspring.trigger_of(r.body), r.body
            FROM unnest(
                rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces,
                rows.unique_keys
            ) r (id, created, body, key, lane, priority, due, foreign_trace, unique_key)
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT array_agg(i.id) INTO added FROM inserted i;
    END IF;
    ended := mainspring.take_back(added, rows.low, rows.high);
    IF news IS NOT NULL THEN
        PERFORM pg_notify(split_part('mainspring.', '.', 1), news);
    END IF;
    IF ended IS NULL AND cardinality(added) = cardinality(rows.ids) THEN
        RETURN NULL;
    END IF;
    RETURN mainspring.add_missed(rows, added, ended, now);
END
$$;

-- The same for one row, without the cost of arrays: half of what an enqueue costs the server.
CREATE OR REPLACE FUNCTION mainspring.add_single(
    wanted uuid, at bigint, its_body text, its_job_id text, its_job text, its_lane text, its_priority integer,
    its_due bigint, trace text, its_key text, news text
) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET lock_timeout = '10ms'
AS $$
DECLARE
    later bigint := coalesce(its_due, at);
BEGIN
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, trigger, body)
    SELECT wanted, at, later, i.key, its_priority, CASE WHEN later <= mainspring.now_micros() THEN 1 ELSE 0 END, its_lane,
        its_key, trace, mainspring.trigger_of(its_body), its_body
    FROM mainspring.incarnation i WHERE i.job_id = its_job_id
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN mainspring.add_bare(ROW(
            ARRAY[wanted], ARRAY[at], ARRAY[its_body], ARRAY[its_job_id], ARRAY[its_job], ARRAY[its_lane],
            ARRAY[its_priority], ARRAY[later], ARRAY[trace], ARRAY[its_key], wanted, wanted
        )::mainspring.bare, news);
    END IF;
    IF EXISTS (SELECT FROM mainspring.history h WHERE h.id = wanted) THEN
        DELETE FROM mainspring.live l WHERE l.id = wanted;
        RETURN '[[1,"duplicate",null]]'::json;
    END IF;
    IF news IS NOT NULL THEN
        PERFORM pg_notify(split_part('mainspring.', '.', 1), news);
    END IF;
    RETURN NULL;
END
$$;

-- `won` are the places of the writes that won. Their executions are added, but for those in `others`: [[place, outcome,
-- holder], ...]. Another scheduler that is at the same ticks is not waited for, it will have made them; should it fail,
-- they are still due.
CREATE OR REPLACE FUNCTION mainspring.write_ticks(t mainspring.ticks, OUT won bigint[], OUT others json) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    numbers bigint[];
    added uuid[];
    ended uuid[];
BEGIN
    PERFORM mainspring.know_jobs(t.job_ids, t.jobs);
    WITH mine AS (
        SELECT g.*
        FROM unnest(
            t.jobs, t.job_ids, t.seen, t.next_runs, t.last_ticks, t.next_dues, t.ids, t.lanes, t.priorities, t.created,
            t.dues, t.bodies, t.overlap_keys, t.running_keys, t.staged
        ) WITH ORDINALITY g (
            job, job_id, seen, next_run, last_tick, next_due, id, lane, priority, created, due, body, overlap_key,
            running_key, staged, place
        )
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.job j WHERE j.name = g.job AND j.id = g.job_id AND j.version = g.seen
            FOR UPDATE SKIP LOCKED
        ) j
    ), advanced AS (
        UPDATE mainspring.job j SET
            version = m.seen + 1, next_run = m.next_run, last_tick = m.last_tick, due = m.next_due
        FROM mine m WHERE j.name = m.job
        RETURNING m.*
    ), numbered AS (
        UPDATE mainspring.incarnation i SET last_number = i.last_number + 1
        FROM advanced a WHERE i.job_id = a.job_id
        RETURNING a.*, i.key, i.last_number
    ), inserted AS (
        INSERT INTO mainspring.live (
            id, job_key, phase, lane, priority, created, due, body, number, staged, overlap_key, running_overlap_key,
            trigger
        )
        SELECT n.id, n.key, mainspring.phase_of(NULL, n.due, now), n.lane, n.priority, n.created, n.due, n.body,
               n.last_number, coalesce(n.staged, false), n.overlap_key, n.running_key, mainspring.trigger_of(n.body)
        FROM numbered n
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT array_agg(n.place), array_agg(n.last_number), (SELECT array_agg(i.id) FROM inserted i)
    INTO won, numbers, added FROM numbered n;
    ended := mainspring.take_back(added);
    IF ended IS NOT NULL OR coalesce(cardinality(added), 0) < cardinality(won) THEN
        others := mainspring.add_refused(t, won, numbers, added, ended, now);
    END IF;
END
$$;
