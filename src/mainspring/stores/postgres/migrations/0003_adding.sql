-- Adding executions. Rows arrive as JSON objects with the fields of this type; what is left out is NULL.
CREATE TYPE mainspring.incoming AS (
    id uuid, job text, job_id text, state text, lane text, priority integer, created bigint, due bigint, body text,
    foreign_trace text, tenant text, parent_id text, number bigint, stray boolean,
    token integer, owner text, lease bigint, claimed bigint, started bigint, finished bigint,
    failures integer, crashes integer, alone boolean, staged boolean, todo boolean,
    unique_key text, overlap_key text, slots integer, running_unique_key text, running_overlap_key text,
    cancel_requested bigint, cancel_reason text,
    reason text, error text, attempts text, result text, counters text, metadata text, progress text
);

CREATE FUNCTION mainspring.incoming(rows json) RETURNS mainspring.incoming[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT r FROM json_populate_recordset(NULL::mainspring.incoming, rows) r);
END
$$;

-- Jobs are given their key when they are written; this is for executions of a job that never was.
CREATE FUNCTION mainspring.know_jobs(ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.incarnation (job_id, job)
    SELECT DISTINCT r.job_id, r.job FROM unnest(ids, names) r (job_id, job)
    WHERE NOT EXISTS (SELECT FROM mainspring.incarnation i WHERE i.job_id = r.job_id)
    ORDER BY r.job_id
    ON CONFLICT DO NOTHING;
END
$$;

CREATE FUNCTION mainspring.phase_of(state text, due bigint, now bigint) RETURNS smallint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE state WHEN 'running' THEN 2 WHEN 'waiting' THEN 3
                        ELSE CASE WHEN due <= now THEN 1 ELSE 0 END END::smallint $$;

-- Of rows just inserted, those that have ended before: they go again. Looked up after the insert, because what ended
-- in between has left the live table, but is in history by now. New ids are of the last moments, in which hardly
-- anything else has ended yet: one look at the range they span is enough as a rule.
CREATE FUNCTION mainspring.take_back(added uuid[], low uuid, high uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    ended uuid[];
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.history h WHERE h.id >= low AND h.id <= high) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(h.id) INTO ended
    FROM mainspring.history h WHERE h.id >= low AND h.id <= high AND h.id = ANY (added);
    IF ended IS NOT NULL THEN
        DELETE FROM mainspring.live WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END
$$;

CREATE FUNCTION mainspring.take_back(added uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT mainspring.take_back(x.ids, x.ids[1], x.ids[cardinality(x.ids)])
        FROM (SELECT array_agg(a.id ORDER BY a.id) AS ids FROM unnest(added) a (id)) x
    );
END
$$;

-- Live rows that ask for no key: all in one statement. Returns the ids that were known already.
CREATE FUNCTION mainspring.add_plain(rows mainspring.incoming[], now bigint) RETURNS uuid[] LANGUAGE plpgsql
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
                metadata, progress
            )
            SELECT r.id, i.key, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
                   r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
                   coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
                   coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.running_unique_key,
                   r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error, r.attempts, r.result,
                   r.counters, r.metadata, r.progress
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
CREATE FUNCTION mainspring.record(r mainspring.incoming, job integer) RETURNS boolean LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO mainspring.history (
        id, created, due, claimed, started, finished, cancel_requested, number, token, job_key, failures, crashes,
        alone, staged, todo, keep, stray, state, unique_key, overlap_key, running_unique_key, running_overlap_key,
        cancel_reason, tenant, parent_id, foreign_trace, reason, error, attempts, result, counters, metadata,
        progress, body
    ) VALUES (
        r.id, r.created, r.due, r.claimed, r.started, r.finished, r.cancel_requested, r.number,
        coalesce(r.token, 0), job, coalesce(r.failures, 0), coalesce(r.crashes, 0), coalesce(r.alone, false),
        coalesce(r.staged, false), coalesce(r.todo, false), true, coalesce(r.stray, false), r.state, r.unique_key, r.overlap_key,
        r.running_unique_key, r.running_overlap_key, r.cancel_reason, r.tenant, r.parent_id, r.foreign_trace,
        r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress, r.body
    ) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF r.state = 'skipped' THEN
        INSERT INTO mainspring.delta (job_key, skipped, ids)
        VALUES (job, 1, CASE WHEN r.number IS NULL THEN ARRAY[r.id] END);
        RETURN true;
    END IF;
    INSERT INTO mainspring.delta (
        job_key, completed, partial, failed, cancelled, duration_ms, timed,
        last_id, last_state, last_started, last_finished, last_error, last_failures, ids
    ) VALUES (
        job, (r.state = 'completed')::integer, (r.state = 'partial')::integer, (r.state = 'failed')::integer,
        (r.state = 'cancelled')::integer, coalesce((r.finished - r.started) / 1000.0, 0),
        (r.finished IS NOT NULL AND r.started IS NOT NULL)::integer, r.id, r.state, r.started, r.finished, r.error,
        coalesce(r.failures, 0), CASE WHEN r.number IS NULL THEN ARRAY[r.id] END
    );
    RETURN true;
END
$$;

CREATE FUNCTION mainspring.insert_live(r mainspring.incoming, job integer, now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.live (
        id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
        token, owner, lease, claimed, started, failures, crashes, alone, staged, unique_key, overlap_key,
        running_unique_key, running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result,
        counters, metadata, progress
    ) VALUES (
        r.id, job, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
        r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
        coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
        coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.unique_key, r.overlap_key,
        r.running_unique_key, r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error,
        r.attempts, r.result, r.counters, r.metadata, r.progress
    ) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- One execution, by the rules of the port: duplicate, unique_taken, skipped or added. The unique indexes decide who
-- gets a key; what they refuse is looked at again, and once more if the holder has vanished meanwhile.
CREATE FUNCTION mainspring.add_one(r mainspring.incoming, now bigint, OUT outcome text, OUT holder uuid)
LANGUAGE plpgsql AS $$
DECLARE
    job integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = r.job_id);
    slots integer := greatest(coalesce(r.slots, 1), 1);
    wanted text := r.overlap_key;
    same boolean := r.running_overlap_key = r.overlap_key;
    slot integer := 0;
    found_id uuid;
BEGIN
    IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id)
        OR EXISTS (SELECT FROM mainspring.history h WHERE h.id = r.id) THEN
        outcome := 'duplicate';
        RETURN;
    END IF;
    IF r.state NOT IN ('pending', 'running', 'waiting') THEN
        outcome := CASE WHEN mainspring.record(r, job) THEN 'added' ELSE 'duplicate' END;
        RETURN;
    END IF;
    FOR try IN 1..100 * slots LOOP
        EXIT WHEN slot = slots;
        IF wanted IS NOT NULL AND slots > 1 THEN
            r.overlap_key := wanted || '#' || slot;
            r.running_overlap_key := CASE WHEN same THEN r.overlap_key ELSE r.running_overlap_key END;
        END IF;
        IF mainspring.insert_live(r, job, now) THEN
            holder := NULL;
            IF EXISTS (SELECT FROM mainspring.history h WHERE h.id = r.id) THEN
                DELETE FROM mainspring.live WHERE id = r.id;
                outcome := 'duplicate';
            ELSE
                outcome := 'added';
            END IF;
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id) THEN
            outcome := 'duplicate';
            RETURN;
        END IF;
        SELECT l.id INTO found_id FROM mainspring.live l WHERE l.unique_key = r.unique_key;
        IF FOUND THEN
            outcome := 'unique_taken';
            holder := found_id;
            RETURN;
        END IF;
        SELECT l.id INTO found_id FROM mainspring.live l WHERE l.overlap_key = r.overlap_key;
        IF FOUND THEN
            holder := coalesce(holder, found_id);
            slot := slot + 1;
        END IF;
    END LOOP;
    r.overlap_key := wanted;
    r.running_overlap_key := CASE WHEN same THEN wanted ELSE r.running_overlap_key END;
    r.state := 'skipped'; r.reason := 'overlap'; r.finished := r.created;
    r.owner := NULL; r.lease := NULL; r.claimed := NULL; r.started := NULL; r.staged := false;
    outcome := 'skipped';
    IF NOT mainspring.record(r, job) THEN
        outcome := 'duplicate';
        holder := NULL;
    END IF;
END
$$;

-- Rows that ask for keys, or have ended: one by one, in order. Returns [[outcome, holder], ...].
CREATE FUNCTION mainspring.add_each(rows mainspring.incoming[], now bigint) RETURNS json LANGUAGE plpgsql
AS $$
DECLARE
    r mainspring.incoming;
    one record;
    outcomes json[] := '{}';
BEGIN
    PERFORM mainspring.know_jobs(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    FOREACH r IN ARRAY rows LOOP
        SELECT * INTO one FROM mainspring.add_one(r, now);
        outcomes := outcomes || json_build_array(one.outcome, one.holder);
    END LOOP;
    RETURN array_to_json(outcomes);
END
$$;

CREATE FUNCTION mainspring.write_audits(audits json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.audit (id, at, actor, action, target, before, after, request_id)
    SELECT id, at, actor, action, target, before, after, request_id
    FROM json_populate_recordset(NULL::mainspring.audit, audits)
    ON CONFLICT DO NOTHING;
END
$$;

-- `known` are the ids of plain rows that were known already, `outcomes` what became of the others.
CREATE FUNCTION mainspring.add(plain json, others json, audits json, OUT known uuid[], OUT outcomes json)
LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
BEGIN
    IF plain IS NOT NULL THEN
        known := mainspring.add_plain(mainspring.incoming(plain), now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.add_each(mainspring.incoming(others), now);
    END IF;
    IF audits IS NOT NULL AND (
        json_array_length(plain) > coalesce(cardinality(known), 0)
        OR EXISTS (SELECT FROM json_array_elements(outcomes) one WHERE one->>0 IN ('added', 'skipped'))
    ) THEN
        PERFORM mainspring.write_audits(audits);
    END IF;
END
$$;

-- The usual rows, as arrays: pending, of nobody in particular, with a unique key at most. One job, lane or priority may
-- stand for all; a due time left out is that of the creation. `low` and `high` are the smallest and the greatest id.
CREATE TYPE mainspring.bare AS (
    ids uuid[], created bigint[], bodies text[], job_ids text[], jobs text[], lanes text[], priorities integer[],
    dues bigint[], foreign_traces text[], unique_keys text[], low uuid, high uuid
);

-- Those not inserted are looked at one by one. Returns [[position, outcome, holder], ...] of them, NULL when there are
-- none. Waits hardly at all for a key that an open transaction is about to take: the caller asks again, and holds no
-- connection meanwhile that others could use. `news` are told to who listens, with the commit.
CREATE FUNCTION mainspring.add_bare(rows mainspring.bare, news text) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET lock_timeout = '10ms'
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keys integer[] := mainspring.keys_of(rows.job_ids, rows.jobs);
    added uuid[];
    ended uuid[];
BEGIN
    WITH inserted AS (
        INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, body)
        SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, keys[1]),
            coalesce(r.priority, rows.priorities[1]),
            CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, rows.lanes[1]),
            r.unique_key, r.foreign_trace, r.body
        FROM unnest(
            rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces,
            rows.unique_keys
        ) r (id, created, body, key, lane, priority, due, foreign_trace, unique_key)
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT array_agg(i.id) INTO added FROM inserted i;
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
CREATE FUNCTION mainspring.add_single(
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
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, body)
    SELECT wanted, at, later, i.key, its_priority, CASE WHEN later <= mainspring.now_micros() THEN 1 ELSE 0 END, its_lane,
        its_key, trace, its_body
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

-- The keys of jobs, in the order given.
CREATE FUNCTION mainspring.keys_of(job_ids text[], jobs text[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    keys integer[];
BEGIN
    FOR try IN 1..2 LOOP
        keys := ARRAY(
            SELECT (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = x.job_id) FROM unnest(job_ids) x (job_id)
        );
        EXIT WHEN array_position(keys, NULL) IS NULL;
        PERFORM mainspring.know_jobs(job_ids, jobs);
    END LOOP;
    RETURN keys;
END
$$;

CREATE FUNCTION mainspring.add_missed(rows mainspring.bare, added uuid[], ended uuid[], now bigint) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
    r mainspring.incoming;
    n integer;
    one record;
    refused json[] := '{}';
BEGIN
    FOR n IN
        SELECT x.n FROM unnest(rows.ids) WITH ORDINALITY x (id, n)
        WHERE x.id = ANY (ended) OR x.id <> ALL (coalesce(added, '{}')) ORDER BY x.n
    LOOP
        r.id := rows.ids[n];
        r.created := rows.created[n];
        r.due := coalesce(rows.dues[n], r.created);
        r.body := rows.bodies[n];
        r.job_id := coalesce(rows.job_ids[n], rows.job_ids[1]);
        r.lane := coalesce(rows.lanes[n], rows.lanes[1]);
        r.priority := coalesce(rows.priorities[n], rows.priorities[1]);
        r.foreign_trace := rows.foreign_traces[n];
        r.unique_key := rows.unique_keys[n];
        SELECT * INTO one FROM mainspring.add_one(r, now);
        IF one.outcome <> 'added' THEN
            refused := refused || json_build_array(n, one.outcome, one.holder);
        END IF;
    END LOOP;
    RETURN nullif(array_to_json(refused)::text, '[]')::json;
END
$$;
