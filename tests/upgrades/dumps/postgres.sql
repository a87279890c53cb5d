SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA mainspring;
CREATE TYPE mainspring.changes AS (
	ids uuid[],
	expects smallint[],
	tokens bigint[],
	owners text[],
	states text[],
	ats bigint[],
	failures integer[],
	crashes integer[],
	delays bigint[],
	starts bigint[],
	attempts text[],
	reasons text[],
	errors text[],
	results text[],
	counters text[],
	metadata text[],
	flags smallint[],
	audits json
);
CREATE TYPE mainspring.completions AS (
	ids uuid[],
	tokens bigint[],
	owner text,
	ats bigint[],
	tries bigint[],
	cpus double precision[],
	results text[]
);
CREATE TYPE mainspring.fresh AS (
	ids uuid[],
	created bigint[],
	bodies text[],
	job_ids text[],
	jobs text[],
	lanes text[],
	priorities integer[],
	dues bigint[],
	foreign_traces text[],
	unique_keys text[],
	low uuid,
	high uuid
);
CREATE TYPE mainspring.incoming AS (
	id uuid,
	job text,
	job_id text,
	state text,
	lane text,
	priority integer,
	created bigint,
	due bigint,
	body text,
	foreign_trace text,
	tenant text,
	parent_id text,
	number bigint,
	stray boolean,
	token bigint,
	owner text,
	lease bigint,
	claimed bigint,
	started bigint,
	finished bigint,
	failures integer,
	crashes integer,
	alone boolean,
	staged boolean,
	todo boolean,
	unique_key text,
	overlap_key text,
	slots integer,
	running_unique_key text,
	running_overlap_key text,
	cancel_requested bigint,
	cancel_reason text,
	reason text,
	error text,
	attempts text,
	result text,
	counters text,
	metadata text,
	progress text,
	share text,
	weight integer,
	limits text
);
CREATE TYPE mainspring.ticks AS (
	jobs text[],
	job_ids text[],
	seen bigint[],
	next_runs bigint[],
	last_ticks bigint[],
	next_dues bigint[],
	ids uuid[],
	lanes text[],
	priorities integer[],
	created bigint[],
	dues bigint[],
	bodies text[],
	overlap_keys text[],
	running_keys text[],
	staged boolean[]
);
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE mainspring.live (
    id uuid NOT NULL,
    created bigint NOT NULL,
    due bigint NOT NULL,
    lease bigint,
    claimed bigint,
    started bigint,
    cancel_requested bigint,
    number bigint,
    token bigint DEFAULT 0 NOT NULL,
    job_key integer NOT NULL,
    priority integer NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    phase smallint NOT NULL,
    alone boolean DEFAULT false NOT NULL,
    staged boolean DEFAULT false NOT NULL,
    blocked boolean DEFAULT false NOT NULL,
    stray boolean DEFAULT false NOT NULL,
    lane text NOT NULL COLLATE pg_catalog."C",
    owner text,
    unique_key text COLLATE pg_catalog."C",
    overlap_key text COLLATE pg_catalog."C",
    running_unique_key text COLLATE pg_catalog."C",
    running_overlap_key text COLLATE pg_catalog."C",
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text NOT NULL,
    trigger text COLLATE pg_catalog."C",
    share text COLLATE pg_catalog."C",
    weight integer,
    tag bigint,
    limits text,
    parked text COLLATE pg_catalog."C",
    for_token boolean,
    line text COLLATE pg_catalog."C",
    place bigint
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.1', autovacuum_analyze_threshold='5000', toast.autovacuum_vacuum_scale_factor='0.02', toast.autovacuum_vacuum_cost_delay='0');
CREATE FUNCTION mainspring.as_claimed(r mainspring.live, same text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        ',"started":', r.started, same,
        CASE WHEN r.failures = 0 AND r.crashes = 0 AND NOT r.alone AND NOT r.staged AND num_nonnulls(
            r.number, r.unique_key, r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_requested,
            r.cancel_reason, r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress
        ) = 0 THEN '}' ELSE mainspring.rare_fields(r) END
    )
$$;
CREATE TABLE mainspring.history (
    id uuid NOT NULL,
    created bigint NOT NULL,
    due bigint NOT NULL,
    claimed bigint,
    started bigint,
    finished bigint,
    tried bigint,
    tried_cpu double precision,
    cancel_requested bigint,
    number bigint,
    token bigint NOT NULL,
    job_key integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    alone boolean NOT NULL,
    staged boolean NOT NULL,
    todo boolean NOT NULL,
    keep boolean NOT NULL,
    stray boolean NOT NULL,
    state text NOT NULL,
    tried_by text,
    unique_key text,
    overlap_key text,
    running_unique_key text,
    running_overlap_key text,
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text NOT NULL,
    trigger text COLLATE pg_catalog."C"
)
PARTITION BY RANGE (id);
CREATE FUNCTION mainspring.as_json(r mainspring.history) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT r.body
        || ',"id":"' || r.id || '","created":' || r.created || ',"due":' || r.due || ',"token":' || r.token
        || ',"state":"' || r.state || '"'
        || mainspring.field('claimed', r.claimed)
        || mainspring.field('started', r.started)
        || mainspring.field('finished', r.finished)
        || mainspring.field('number', coalesce(r.number, mainspring.number_of(r.job_key, r.id)))
        || CASE WHEN r.failures = 0 THEN '' ELSE ',"failures":' || r.failures END
        || CASE WHEN r.crashes = 0 THEN '' ELSE ',"crashes":' || r.crashes END
        || CASE WHEN r.alone THEN ',"alone":true' ELSE '' END
        || CASE WHEN r.staged THEN ',"staged":true' ELSE '' END
        || CASE WHEN r.todo THEN ',"todo":true' ELSE ',"todo":false' END
        || mainspring.field('unique_key', r.unique_key)
        || mainspring.field('overlap_key', r.overlap_key)
        || mainspring.field('running_unique_key', r.running_unique_key)
        || mainspring.field('running_overlap_key', r.running_overlap_key)
        || mainspring.field('cancel_requested', r.cancel_requested)
        || mainspring.field('cancel_reason', r.cancel_reason)
        || mainspring.field('reason', r.reason)
        || mainspring.field('error', r.error)
        || mainspring.field('attempts_json', mainspring.attempts_of(r))
        || mainspring.field('result_json', r.result)
        || mainspring.field('counters_json', r.counters)
        || mainspring.field('metadata_json', r.metadata)
        || mainspring.field('progress_json', r.progress)
        || '}'
$$;
CREATE FUNCTION mainspring.as_json(r mainspring.live) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        CASE r.phase WHEN 2 THEN ',"state":"running"' WHEN 3 THEN ',"state":"waiting"' END,
        mainspring.field('owner', r.owner), mainspring.field('lease', r.lease),
        mainspring.field('claimed', r.claimed), mainspring.field('started', r.started),
        mainspring.field('parked', CASE r.phase WHEN -1 THEN r.parked END), mainspring.rest_of(r)
    )
$$;
CREATE FUNCTION mainspring.as_time(micros bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT to_timestamp(micros::double precision / 1000000) $$;
CREATE FUNCTION mainspring.attempts_of(r mainspring.history) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN r.tried IS NULL THEN r.attempts ELSE concat(
        '[{"number":1,"worker":', to_json(r.tried_by)::text, ',"started":', r.tried, ',"ended":', r.finished,
        ',"end":"completed"', ',"cpu_ms":' || r.tried_cpu, '}]'
    ) END
$$;
CREATE FUNCTION mainspring.backlog() RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT 50 $$;
CREATE FUNCTION mainspring.cancels(of_owner text) RETURNS json
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
BEGIN
    RETURN (
        SELECT json_object_agg(l.id, coalesce(l.cancel_reason, '')) FROM mainspring.live l
        WHERE l.cancel_requested IS NOT NULL AND l.owner = of_owner AND l.phase = 2
    );
END
$$;
CREATE FUNCTION mainspring.claim_in_order(new_owner text, stamp bigint, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean, now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean, OUT woken uuid[], OUT contended boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    found text[] := mainspring.ready_lanes(handlers, queues);
    lanes text[];
    special boolean;
    order_of_lanes text[];
    until bigint := now + lease_for;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    trading uuid[];
    picked uuid[];
BEGIN
    alone_waiting := false;
    IF found IS NULL THEN
        taken := 0;
        RETURN;
    END IF;
    SELECT array_agg(lane ORDER BY n) FILTER (WHERE (split_part(lane, '/', 3) = '') <> only_alone),
           coalesce(bool_or(split_part(lane, '/', 3) <> ''), false),
           bool_or(split_part(lane, '/', 4) <> '' AND (split_part(lane, '/', 3) = '') <> only_alone)
    INTO lanes, alone_waiting, special FROM unnest(found) WITH ORDINALITY l (lane, n);
    IF lanes IS NULL OR wanted < 1 THEN
        taken := 0;
        RETURN;
    END IF;
    IF special THEN
        -- If a crash lost the claim, its slot would be free, and one execution too many could run: wait for the disk.
        PERFORM set_config('synchronous_commit', 'on', true);
        SELECT c.claimed, c.blocked, c.taken, c.woken, c.contended INTO claimed, blocked, taken, woken, contended
        FROM mainspring.claim_limited(lanes, new_owner, stamp, until, wanted, turn, now) c;
    ELSIF cardinality(lanes) = 1 THEN
        SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
        FROM mainspring.claim_lane(lanes[1], new_owner, stamp, until, wanted, now) c;
    ELSIF mainspring.is_even(lanes, wanted) THEN
        WITH best AS MATERIALIZED (
            SELECT b.place, b.id, b.staged, b.round * cardinality(lanes) + o.seat AS n
            FROM (
                SELECT x.lane, (x.n - 1 - turn % cardinality(lanes) + cardinality(lanes)) % cardinality(lanes) AS seat
                FROM unnest(lanes) WITH ORDINALITY x (lane, n)
            ) o CROSS JOIN LATERAL (
                SELECT x.place, x.id, x.staged, row_number() OVER () - 1 AS round FROM (
                    SELECT l.ctid AS place, l.id, l.staged FROM mainspring.live l
                    WHERE l.phase = 1 AND l.lane = o.lane ORDER BY l.priority DESC, l.id
                    LIMIT (wanted - o.seat + cardinality(lanes) - 1) / cardinality(lanes)
                    FOR UPDATE SKIP LOCKED
                ) x
            ) b
        ), mine AS (
            UPDATE mainspring.live l SET
                phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
                claimed = now, started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
            RETURNING l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT string_agg(m.text, ',' ORDER BY b.n), array_agg(b.id ORDER BY b.n),
            array_agg(b.id ORDER BY b.n) FILTER (WHERE b.staged)
        INTO claimed, picked, trading FROM best b LEFT JOIN mine m ON m.id = b.id;
    ELSE
        order_of_lanes := mainspring.turns(lanes, wanted, turn);
        WITH seat AS MATERIALIZED (
            SELECT lane, n, row_number() OVER (PARTITION BY lane ORDER BY n) AS nth
            FROM unnest(order_of_lanes) WITH ORDINALITY o (lane, n)
        ), quota AS (
            SELECT lane, max(nth) AS rows FROM seat GROUP BY lane
        ), best AS MATERIALIZED (
            SELECT q.lane, b.place, b.id, b.staged, b.nth
            FROM quota q CROSS JOIN LATERAL (
                SELECT x.place, x.id, x.staged, row_number() OVER () AS nth FROM (
                    SELECT l.ctid AS place, l.id, l.staged FROM mainspring.live l
                    WHERE l.phase = 1 AND l.lane = q.lane ORDER BY l.priority DESC, l.id LIMIT q.rows
                    FOR UPDATE SKIP LOCKED
                ) x
            ) b
        ), placed AS MATERIALIZED (
            SELECT b.place, b.id, b.staged, s.n FROM best b JOIN seat s ON s.lane = b.lane AND s.nth = b.nth
        ), mine AS (
            UPDATE mainspring.live l SET
                phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
                claimed = now, started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM placed WHERE NOT placed.staged))
            RETURNING l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT string_agg(m.text, ',' ORDER BY p.n), array_agg(p.id ORDER BY p.n),
            array_agg(p.id ORDER BY p.n) FILTER (WHERE p.staged)
        INTO claimed, picked, trading FROM placed p LEFT JOIN mine m ON m.id = p.id;
    END IF;
    taken := coalesce(taken, cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        SELECT t.claimed, t.blocked INTO claimed, blocked
        FROM mainspring.trade(picked, trading, new_owner, stamp, until, now) t;
    END IF;
    IF only_alone THEN
        alone_waiting := EXISTS (
            SELECT FROM unnest(mainspring.ready_lanes(handlers, queues)) lane WHERE split_part(lane, '/', 3) <> ''
        );
    END IF;
END
$$;
CREATE FUNCTION mainspring.claim_lane(its_lane text, new_owner text, stamp bigint, until bigint, wanted integer, now bigint, OUT claimed text, OUT blocked text, OUT taken integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    picked uuid[];
    trading uuid[];
    lowest integer;
BEGIN
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id, l.priority, l.staged FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = its_lane ORDER BY l.priority DESC, l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
        RETURNING l.priority, l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT (SELECT string_agg(m.text, ',' ORDER BY m.priority DESC, m.id) FROM mine m),
        array_agg(b.id), array_agg(b.id) FILTER (WHERE b.staged), min(b.priority)
    INTO claimed, picked, trading, lowest FROM best b;
    taken := coalesce(cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        SELECT t.claimed, t.blocked INTO claimed, blocked
        FROM mainspring.trade(picked, trading, new_owner, stamp, until, now) t;
    ELSIF taken = wanted AND wanted >= mainspring.backlog() THEN
        PERFORM mainspring.remember(now, lowest, picked[wanted], its_lane);
    END IF;
END
$$;
CREATE FUNCTION mainspring.claim_limited(lanes text[], new_owner text, stamp bigint, until bigint, wanted integer, turn integer, now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT woken uuid[], OUT contended boolean) RETURNS record
    LANGUAGE plpgsql
    SET enable_nestloop TO 'on'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    picked uuid[];
    claimable uuid[];
    judged record;
BEGIN
    IF cardinality(lanes) = 1 THEN
        SELECT array_agg(f.id ORDER BY f.nth) INTO picked FROM mainspring.lock_front(lanes[1], wanted) f;
    ELSE
        WITH seat AS MATERIALIZED (
            SELECT o.lane, o.n, row_number() OVER (PARTITION BY o.lane ORDER BY o.n) AS nth
            FROM unnest(mainspring.limited_turns(lanes, wanted, turn)) WITH ORDINALITY o (lane, n)
        ), best AS MATERIALIZED (
            SELECT q.lane, f.id, f.nth
            FROM (SELECT s.lane, max(s.nth) AS rows FROM seat s GROUP BY s.lane) q
            CROSS JOIN LATERAL mainspring.lock_front(q.lane, q.rows) f
        )
        SELECT array_agg(b.id ORDER BY s.n) INTO picked FROM best b JOIN seat s ON s.lane = b.lane AND s.nth = b.nth;
    END IF;
    taken := coalesce(cardinality(picked), 0);
    contended := false;
    IF picked IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (picked) AND (l.staged OR l.limits IS NOT NULL)) THEN
        SELECT * INTO judged FROM mainspring.judge(picked, new_owner, stamp, until, now);
        claimable := judged.claimable;
        woken := judged.woken;
        contended := judged.left_ready > 0;
        taken := CASE WHEN woken IS NULL THEN taken - judged.left_ready ELSE wanted END;
        SELECT string_agg(
            '[' || mainspring.as_json(l) || ',' || coalesce(to_json(b.holder)::text, 'null') || ']', ',' ORDER BY b.n
        ) INTO blocked
        FROM unnest(judged.blocked, judged.holders) WITH ORDINALITY b (id, holder, n)
            JOIN mainspring.live l ON l.id = b.id;
    ELSE
        claimable := picked;
    END IF;
    UPDATE mainspring.live l SET
        phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
        claimed = now, started = coalesce(l.started, now), tag = NULL, parked = NULL, for_token = NULL, line = NULL,
        place = NULL
    WHERE l.id = ANY (claimable);
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) INTO claimed
    FROM unnest(picked) WITH ORDINALITY p (id, n) JOIN mainspring.live l ON l.id = p.id
    WHERE greatest(l.phase, 0::smallint) = 2;
    IF woken IS NOT NULL THEN
        UPDATE mainspring.live l SET phase = 1 WHERE l.id = ANY (woken) AND l.share IS NOT NULL;
        PERFORM mainspring.give_tags(woken);
    END IF;
END
$$;
CREATE FUNCTION mainspring.claim_onward(new_owner text, stamp bigint, handlers text[], queues text[], until bigint, wanted integer, now bigint, OUT claimed text, OUT taken integer) RETURNS record
    LANGUAGE plpgsql
    SET seq_page_cost TO '0'
    SET random_page_cost TO '0'
    AS $$
DECLARE
    mark text[] := string_to_array(current_setting('mainspring.claimed_up_to', true), chr(30));
    since bigint := mark[1];
    its_priority integer := mark[2];
    after uuid := mark[3];
    its_lane text := mark[4];
    last uuid;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
BEGIN
    taken := 0;
    IF its_lane IS NULL OR now NOT BETWEEN since AND since + 200000
        OR split_part(its_lane, '/', 2) <> ALL (handlers) OR split_part(its_lane, '/', 1) <> ALL (queues)
        OR ((
            EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane < its_lane)
            OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane > its_lane)
        ) AND mainspring.other_lanes(handlers, queues, its_lane) IS NOT NULL)
        OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane = its_lane AND l.priority > its_priority)
    THEN
        RETURN;
    END IF;
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.phase < 2 AND l.lane = its_lane AND l.priority = its_priority AND l.id > after
            AND NOT l.staged AND l.xmax = '0'::xid
        ORDER BY l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best))
        RETURNING l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT string_agg(m.text, ',' ORDER BY m.id), count(*), (SELECT b.id FROM best b ORDER BY b.id DESC LIMIT 1)
    INTO claimed, taken, last FROM mine m;
    IF taken = wanted THEN
        PERFORM mainspring.remember(since, its_priority, last, its_lane);
    ELSE
        PERFORM set_config('mainspring.claimed_up_to', '', false);
    END IF;
END
$$;
CREATE FUNCTION mainspring.claim_staged(wanted uuid, new_owner text, stamp bigint, until bigint, now bigint, OUT holder uuid) RETURNS uuid
    LANGUAGE plpgsql
    SET lock_timeout TO '20ms'
    AS $$
DECLARE
    delay bigint := 5000000;
    r mainspring.live;
BEGIN
    BEGIN
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now), unique_key = l.running_unique_key,
            overlap_key = l.running_overlap_key, staged = false, tag = NULL
        WHERE l.id = wanted;
        RETURN;
    EXCEPTION
        WHEN unique_violation THEN NULL;
        WHEN lock_not_available THEN delay := 50000;
    END;
    SELECT * INTO r FROM mainspring.live l WHERE l.id = wanted;
    SELECT l.id INTO holder FROM mainspring.live l WHERE l.unique_key = r.running_unique_key AND l.id <> wanted;
    IF holder IS NULL THEN
        SELECT l.id INTO holder FROM mainspring.live l WHERE l.overlap_key = r.running_overlap_key AND l.id <> wanted;
    END IF;
    PERFORM FROM mainspring.live l WHERE l.id = holder FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        delay := 50000;
    END IF;
    UPDATE mainspring.live l SET phase = 0, due = now + delay, blocked = true, tag = NULL WHERE l.id = wanted;
END
$$;
CREATE FUNCTION mainspring.delete_finished(ids uuid[]) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    gone uuid[];
BEGIN
    WITH deleted AS (
        DELETE FROM mainspring.history h WHERE h.id = ANY (ids) AND NOT h.todo RETURNING h.id
    )
    SELECT array_agg(d.id) INTO gone FROM deleted d;
    DELETE FROM mainspring.log g WHERE g.execution_id = ANY (gone);
    RETURN coalesce(cardinality(gone), 0);
END
$$;
CREATE FUNCTION mainspring.delete_job(wanted text, seen bigint, purge boolean, audit json) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    deleted text;
    gone integer;
BEGIN
    DELETE FROM mainspring.job j WHERE j.name = wanted AND j.version = seen RETURNING j.id INTO deleted;
    IF deleted IS NULL THEN
        RETURN NULL;
    END IF;
    IF audit IS NOT NULL THEN
        PERFORM mainspring.write_audits(json_build_array(audit));
    END IF;
    IF purge THEN
        SELECT i.key INTO gone FROM mainspring.incarnation i WHERE i.job_id = deleted;
        DELETE FROM mainspring.totals t WHERE t.job_key = gone;
        DELETE FROM mainspring.trigger_totals t WHERE t.job_key = gone;
        DELETE FROM mainspring.delta d WHERE d.job_key = gone;
        INSERT INTO mainspring.purge (job_key) VALUES (gone) ON CONFLICT DO NOTHING;
    END IF;
    RETURN deleted;
END
$$;
CREATE FUNCTION mainspring.drop_empty_partitions(before date) RETURNS integer
    LANGUAGE plpgsql
    AS $_$
DECLARE
    name text;
    filled boolean;
    dropped integer := 0;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'mainspring.history'::regclass AND c.relname ~ '^history_\d{4}_\d{2}$'
            AND to_date(c.relname, '"history_"YYYY_MM') < before
        ORDER BY 1
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM mainspring.%I)', name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('LOCK TABLE ONLY mainspring.history, mainspring.%I IN ACCESS EXCLUSIVE MODE', name);
        EXECUTE format('SELECT EXISTS (SELECT FROM mainspring.%I)', name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('DROP TABLE mainspring.%I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$_$;
CREATE FUNCTION mainspring.due_jobs(most bigint) RETURNS TABLE(now bigint, upcoming bigint, due bigint, name text, id text, version bigint, origin text, declared text, overrides text, release text, next_run bigint, last_tick bigint, anchor bigint, paused bigint, paused_by text, pause_note text, resume bigint, cancelled bigint, sweep boolean, created bigint, updated bigint, last_number bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    now := mainspring.now_micros();
    upcoming := (SELECT j.due FROM mainspring.job j WHERE j.due > now ORDER BY j.due LIMIT 1);
    RETURN QUERY
        SELECT now, upcoming, j.due, j.name, j.id, j.version, j.origin, j.declared, j.overrides, j.release, j.next_run,
            j.last_tick, j.anchor, j.paused, j.paused_by, j.pause_note, j.resume, j.cancelled, j.sweep, j.created,
            j.updated,
            coalesce((SELECT i.last_number FROM mainspring.incarnation i WHERE i.job_id = j.id), 0)
        FROM mainspring.job j WHERE j.due <= now ORDER BY j.due, j.name LIMIT most;
    IF NOT FOUND THEN
        RETURN NEXT;
    END IF;
END
$$;
CREATE FUNCTION mainspring.enqueue(request json) RETURNS json
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    now bigint := mainspring.now_micros();
    many json;
    one json;
    r mainspring.incoming;
    done record;
    answers json[] := '{}';
    special uuid[];
BEGIN
    PERFORM pg_notify(split_part('mainspring.', '.', 1), 'work');
    IF json_typeof(request) = 'object' AND (request->'keyless' IS NOT NULL OR request->'others' IS NOT NULL) THEN
        SELECT * INTO done FROM mainspring.insert_rows(request->'keyless', request->'others', NULL);
        RETURN json_build_object('known', done.known, 'outcomes', done.outcomes);
    END IF;
    many := CASE WHEN json_typeof(request) = 'array' THEN request ELSE json_build_array(request) END;
    FOR one IN SELECT * FROM json_array_elements(many) LOOP
        r := mainspring.row_of(one, now);
        SELECT * INTO done FROM mainspring.insert_one(r, now);
        IF done.outcome = 'added' AND (r.share IS NOT NULL OR r.limits IS NOT NULL) THEN
            special := special || r.id;
        END IF;
        answers := answers || json_build_object('id', r.id, 'outcome', done.outcome, 'holder', done.holder);
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    RETURN CASE WHEN json_typeof(request) = 'array' THEN array_to_json(answers) ELSE answers[1] END;
END
$$;
CREATE TABLE mainspring.job (
    name text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL,
    version bigint NOT NULL,
    origin text NOT NULL,
    declared text NOT NULL,
    overrides text NOT NULL,
    release text NOT NULL,
    next_run bigint,
    last_tick bigint,
    anchor bigint NOT NULL,
    paused bigint,
    paused_by text,
    pause_note text,
    resume bigint,
    cancelled bigint,
    sweep boolean NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    due bigint,
    template text NOT NULL
)
WITH (fillfactor='70');
CREATE FUNCTION mainspring.enqueueable(request json) RETURNS mainspring.job
    LANGUAGE plpgsql
    AS $_$
DECLARE
    known CONSTANT text[] := ARRAY['job', 'params', 'unique', 'start_at', 'priority', 'queue', 'tenant', 'share',
                                   'by', 'metadata', 'traceparent'];
    wrong text := (SELECT min(k) FROM json_object_keys(request) k WHERE k <> ALL (known));
    j mainspring.job;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%: not a field of a request', wrong USING HINT = 'Known are ' || array_to_string(known, ', ');
    END IF;
    SELECT * INTO j FROM mainspring.job x WHERE x.name = request->>'job';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job: no job named %', coalesce(quote_literal(request->>'job'), 'null');
    ELSIF j.cancelled IS NOT NULL THEN
        RAISE EXCEPTION 'cannot enqueue job %: it is cancelled', quote_literal(j.name);
    ELSIF request->>'queue' !~ '^[A-Za-z0-9_.:-]{1,100}$' THEN
        RAISE EXCEPTION 'queue: % is not a name', quote_literal(request->>'queue');
    ELSIF request->>'start_at' !~* '[0-9]:[0-9]{2}(:[0-9.]+)? *(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' THEN
        RAISE EXCEPTION 'start_at: % has no offset', quote_literal(request->>'start_at')
            USING HINT = 'Write it as 2030-01-01T00:00:00Z or 2030-01-01T00:00:00+02:00';
    ELSIF (request->>'start_at')::timestamptz NOT BETWEEN '1970-01-01Z' AND '4999-12-31 23:59:59.999999Z' THEN
        RAISE EXCEPTION 'start_at: % is not an instant from the year 1970 to the year 4999',
            quote_literal(request->>'start_at');
    END IF;
    FOREACH wrong IN ARRAY ARRAY['params', 'metadata'] LOOP
        IF coalesce(json_typeof(request->wrong), 'null') NOT IN ('object', 'null') THEN
            RAISE EXCEPTION '%: a JSON object is needed, not %', wrong, json_typeof(request->wrong);
        END IF;
    END LOOP;
    RETURN j;
END
$_$;
CREATE FUNCTION mainspring.ensure_incarnations(ids text[], names text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO mainspring.incarnation (job_id, job)
    SELECT DISTINCT r.job_id, r.job FROM unnest(ids, names) r (job_id, job)
    WHERE NOT EXISTS (SELECT FROM mainspring.incarnation i WHERE i.job_id = r.job_id)
    ORDER BY r.job_id
    ON CONFLICT DO NOTHING;
END
$$;
CREATE FUNCTION mainspring.enter_limited(added uuid[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION mainspring.exchange(completed mainspring.completions, batch mainspring.changes, new_owner text, stamp bigint, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean, OUT applied text, OUT freed boolean, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean, OUT next_due bigint, OUT now bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    done integer[];
    fair uuid[];
    promoted uuid[];
    woken uuid[];
    woken_late uuid[];
    look bigint;
    contended boolean;
    onward text;
    already integer := 0;
    first_lane text;
    last_lane text;
BEGIN
    now := mainspring.now_micros();
    IF completed.ids IS NOT NULL THEN
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken
        FROM mainspring.settle_completed(completed, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(completed.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    ELSIF batch.ids IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken FROM mainspring.settle(batch, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(batch.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    END IF;
    SELECT (
            SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
            WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
        ), (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1)
    INTO look, next_due;
    IF look <= now OR look > now + 5000000 THEN
        woken := woken || mainspring.look(now);
        look := mainspring.first_look();
        next_due := now;
    END IF;
    IF next_due <= now THEN
        SELECT p.upcoming, p.fair INTO next_due, promoted FROM mainspring.promote(now) p;
    END IF;
    IF fair IS NOT NULL OR promoted IS NOT NULL THEN
        PERFORM mainspring.give_tags(fair || promoted);
    END IF;
    IF wanted IS NOT NULL THEN
        alone_waiting := false;
        IF wanted >= mainspring.backlog() AND NOT only_alone
            AND current_setting('mainspring.claimed_up_to', true) <> ''
        THEN
            SELECT o.claimed, o.taken INTO claimed, already
            FROM mainspring.claim_onward(new_owner, stamp, handlers, queues, now + lease_for, wanted, now) o;
        END IF;
        IF already = 0 OR already < wanted THEN
            SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1),
                (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane DESC LIMIT 1)
            INTO first_lane, last_lane;
        END IF;
        IF first_lane = last_lane AND already = 0 AND NOT only_alone
            AND split_part(first_lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(first_lane, '/', 1) = ANY (queues))
            AND split_part(first_lane, '/', 3) = '' AND split_part(first_lane, '/', 4) = ''
        THEN
            SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
            FROM mainspring.claim_lane(first_lane, new_owner, stamp, now + lease_for, wanted, now) c;
        ELSIF first_lane IS NOT NULL THEN
            onward := claimed;
            SELECT c.claimed, c.blocked, already + c.taken, c.alone_waiting, c.woken, c.contended
            INTO claimed, blocked, taken, alone_waiting, woken_late, contended
            FROM mainspring.claim_in_order(
                new_owner, stamp, handlers, queues, lease_for, wanted - already, turn, only_alone, now
            ) c;
            IF onward IS NOT NULL THEN
                claimed := concat_ws(',', onward, claimed);
            END IF;
        END IF;
        taken := coalesce(taken, already);
        IF blocked IS NOT NULL THEN
            next_due := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
        END IF;
        IF contended IS NOT NULL THEN
            look := mainspring.first_look();
            next_due := CASE WHEN contended THEN least(next_due, now + 5000) ELSE next_due END;
        END IF;
    END IF;
    next_due := least(next_due, look);
    woken := woken || woken_late;
    IF woken IS NOT NULL AND freed IS DISTINCT FROM true THEN
        freed := EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (woken) AND greatest(l.phase, 0::smallint) = 1);
    END IF;
END
$$;
CREATE FUNCTION mainspring.field(name text, value bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || value END $$;
CREATE FUNCTION mainspring.field(name text, value text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || to_json(value)::text END $$;
CREATE FUNCTION mainspring.filled(key text, tenant text, job text, queue text, params json) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    unprintable CONSTANT text := '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f'
                                 '\u3000\ue000-\uf8ff\ufeff]';
    result text := '';
    piece text[];
    value text;
BEGIN
    FOR piece IN SELECT regexp_matches(key, '([^{]*)(?:\{([^{}]*)\})?', 'g') LOOP
        value := CASE piece[2] WHEN 'tenant' THEN tenant WHEN 'job' THEN job WHEN 'queue' THEN queue
                               ELSE params->>regexp_replace(piece[2], '^params\.', '') END;
        value := coalesce(nullif(regexp_replace(left(value, 200), unprintable, '?', 'g'), ''), '-');
        result := result || piece[1] || CASE WHEN piece[2] IS NULL THEN '' ELSE value END;
    END LOOP;
    RETURN left(result, 400);
END
$$;
CREATE FUNCTION mainspring.first_look() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    look bigint := (
        SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
        WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
    );
BEGIN
    RETURN CASE WHEN look > mainspring.now_micros() + 5000000 THEN 0 ELSE look END;
END
$$;
CREATE FUNCTION mainspring.fold(most integer) RETURNS integer
    LANGUAGE plpgsql
    SET jit TO 'off'
    AS $$
DECLARE
    folded mainspring.delta[];
BEGIN
    PERFORM pg_advisory_xact_lock('mainspring.delta'::regclass::oid::bigint);
    WITH taken AS (
        DELETE FROM mainspring.delta WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM mainspring.delta d LIMIT most))
        RETURNING *
    )
    SELECT array_agg(t::mainspring.delta) INTO folded FROM taken t;
    IF folded IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO mainspring.totals AS t
    SELECT d.job_key, sum(d.completed), sum(d.partial), sum(d.failed), sum(d.cancelled), sum(d.skipped),
        sum(d.duration_ms), sum(d.timed), sum(d.rescued), NULL, NULL, NULL, NULL, NULL, 0
    FROM unnest(folded) d GROUP BY d.job_key ORDER BY d.job_key
    ON CONFLICT (job_key) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped, duration_ms = t.duration_ms + excluded.duration_ms,
        timed = t.timed + excluded.timed, rescued = t.rescued + excluded.rescued;
    UPDATE mainspring.totals t SET
        last_id = d.last_id, last_state = d.last_state, last_started = d.last_started,
        last_finished = d.last_finished, last_error = d.last_error, last_failures = d.last_failures
    FROM (
        SELECT DISTINCT ON (d.job_key) d.* FROM unnest(folded) d WHERE d.last_id IS NOT NULL
        ORDER BY d.job_key, d.last_id DESC
    ) d
    WHERE t.job_key = d.job_key AND (t.last_id IS NULL OR t.last_id < d.last_id);
    PERFORM mainspring.fold_triggers(folded);
    PERFORM mainspring.give_numbers(folded);
    RETURN cardinality(folded);
END
$$;
CREATE TABLE mainspring.delta (
    job_key integer NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    partial integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    duration_ms double precision DEFAULT 0 NOT NULL,
    timed integer DEFAULT 0 NOT NULL,
    rescued integer DEFAULT 0 NOT NULL,
    last_id uuid,
    last_state text,
    last_started bigint,
    last_finished bigint,
    last_error text,
    last_failures integer DEFAULT 0 NOT NULL,
    ids uuid[],
    dropped integer DEFAULT 0 NOT NULL,
    trigger text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY mainspring.delta ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE FUNCTION mainspring.fold_triggers(folded mainspring.delta[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO mainspring.trigger_totals AS t
    SELECT d.job_key, coalesce(d.trigger, 'enqueue') AS its_trigger, sum(d.completed), sum(d.partial), sum(d.failed),
        sum(d.cancelled), sum(d.skipped)
    FROM unnest(folded) d GROUP BY d.job_key, its_trigger
    HAVING sum(d.completed + d.partial + d.failed + d.cancelled + d.skipped) > 0
    ORDER BY d.job_key, its_trigger
    ON CONFLICT (job_key, trigger) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped;
END
$$;
CREATE FUNCTION mainspring.front(of_lane text, most integer) RETURNS TABLE(priority integer, tag bigint, id uuid)
    LANGUAGE plpgsql ROWS 100
    AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT l.priority, l.tag, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane ORDER BY l.priority DESC, l.tag, l.id LIMIT most;
    ELSE
        RETURN QUERY SELECT l.priority, 0::bigint, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most;
    END IF;
END
$$;
CREATE FUNCTION mainspring.give_numbers(folded mainspring.delta[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    at_once CONSTANT integer := 500;
    job record;
    base bigint;
    first_span bigint;
    total integer;
BEGIN
    FOR job IN
        SELECT i.key, s.dropped, coalesce(x.ids, '{}') AS ids
        FROM (SELECT d.job_key, sum(d.dropped) AS dropped FROM unnest(folded) d GROUP BY d.job_key) s
        JOIN mainspring.incarnation i ON i.key = s.job_key
        LEFT JOIN (
            SELECT e.job_key, array_agg(e.id ORDER BY e.id) AS ids
            FROM (SELECT d.job_key, unnest(d.ids) AS id FROM unnest(folded) d) e GROUP BY e.job_key
        ) x ON x.job_key = s.job_key
        WHERE s.dropped > 0 OR x.ids IS NOT NULL
        ORDER BY i.job, i.key
    LOOP
        total := cardinality(job.ids);
        UPDATE mainspring.incarnation SET last_number = last_number + total + job.dropped
        WHERE key = job.key
        RETURNING last_number - total - job.dropped INTO base;
        first_span := mainspring.span_of(job.ids[1]);
        IF first_span = mainspring.span_of(job.ids[total]) THEN
            INSERT INTO mainspring.numbers (job_key, span, low, high, first, ids)
            SELECT job.key, first_span, job.ids[n], job.ids[least(n + at_once - 1, total)], base + n,
                job.ids[n:n + at_once - 1]
            FROM generate_series(1, total, at_once) n;
        ELSE
            INSERT INTO mainspring.numbers (job_key, span, low, high, first, ids)
            SELECT job.key, s.span, s.ids[1], s.ids[cardinality(s.ids)], base + s.first, s.ids
            FROM (
                SELECT x.span, min(x.n) AS first, array_agg(x.id ORDER BY x.n) AS ids
                FROM (
                    SELECT i.id, i.n, mainspring.span_of(i.id) AS span
                    FROM unnest(job.ids) WITH ORDINALITY i (id, n)
                ) x
                GROUP BY x.span, (x.n - 1) / at_once
            ) s;
        END IF;
    END LOOP;
END
$$;
CREATE FUNCTION mainspring.give_tags(ready uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_nestloop TO 'on'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
    WITH newcomer AS MATERIALIZED (
        SELECT l.id, l.lane, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step
        FROM mainspring.live l WHERE l.id = ANY (ready) AND greatest(l.phase, 0::smallint) = 1 AND l.share IS NOT NULL
            AND l.tag IS NULL
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
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = s.lane AND l.priority = s.priority
                AND l.share = s.share
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
CREATE FUNCTION mainspring.heartbeat(worker text, worker_info text, ids uuid[], tokens bigint[], lease_for bigint, OUT kept uuid[], OUT cancels json, OUT now bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    now := mainspring.now_micros();
    INSERT INTO mainspring.worker AS w (id, seen, info) VALUES (worker, now, worker_info)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, info = excluded.info;
    WITH renewed AS (
        UPDATE mainspring.live l SET lease = now + lease_for
        WHERE l.id = ANY (ids) AND l.phase = 2 AND l.owner = worker AND l.token = tokens[array_position(ids, l.id)]
        RETURNING l.id
    )
    SELECT array_agg(r.id) INTO kept FROM renewed r;
    cancels := mainspring.cancels(worker);
END
$$;
CREATE TABLE mainspring.limit_state (
    key text NOT NULL COLLATE pg_catalog."C",
    running integer DEFAULT 0 NOT NULL,
    level double precision,
    since bigint,
    rate double precision,
    burst integer,
    slot_look bigint,
    token_look bigint
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
CREATE FUNCTION mainspring.hold_keys(all_limits text[]) RETURNS mainspring.limit_state[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    wanted text[] := ARRAY(SELECT k.key FROM mainspring.keys_in(all_limits) k);
BEGIN
    INSERT INTO mainspring.limit_state (key)
    SELECT w.key FROM unnest(wanted) w (key)
    WHERE NOT EXISTS (SELECT FROM mainspring.limit_state s WHERE s.key = w.key) ORDER BY w.key
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(
        SELECT s FROM mainspring.limit_state s WHERE s.key = ANY (wanted) FOR UPDATE SKIP LOCKED
    );
END
$$;
CREATE FUNCTION mainspring.id_at(micros bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (lpad(to_hex(greatest(micros, 0) / 1000), 12, '0') || repeat('0', 20))::uuid $$;
CREATE FUNCTION mainspring.in_lane(lane text, alone boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT split_part(lane, '/', 1) || '/' || split_part(lane, '/', 2) || CASE
        WHEN split_part(lane, '/', 4) <> '' THEN
            CASE WHEN alone THEN '/alone/' ELSE '//' END || split_part(lane, '/', 4)
        WHEN alone THEN '/alone' ELSE '' END
$$;
CREATE FUNCTION mainspring.incoming(rows json) RETURNS mainspring.incoming[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN ARRAY(SELECT r FROM json_populate_recordset(NULL::mainspring.incoming, rows) r);
END
$$;
CREATE FUNCTION mainspring.insert_each(rows mainspring.incoming[], now bigint) RETURNS json
    LANGUAGE plpgsql
    AS $$
DECLARE
    r mainspring.incoming;
    one record;
    outcomes json[] := '{}';
BEGIN
    PERFORM mainspring.ensure_incarnations(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    FOREACH r IN ARRAY rows LOOP
        SELECT * INTO one FROM mainspring.insert_one(r, now);
        outcomes := outcomes || json_build_array(one.outcome, one.holder);
    END LOOP;
    RETURN array_to_json(outcomes);
END
$$;
CREATE FUNCTION mainspring.insert_finished(r mainspring.incoming, job integer) RETURNS boolean
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
CREATE FUNCTION mainspring.insert_fresh(rows mainspring.fresh, opening text, news text) RETURNS json
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET lock_timeout TO '10ms'
    AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keys integer[] := mainspring.keys_of(rows.job_ids, rows.jobs);
    its_key integer := keys[1];
    its_lane text := rows.lanes[1];
    its_priority integer := rows.priorities[1];
    its_trigger text := mainspring.trigger_of(opening);
    added uuid[];
    ended uuid[];
BEGIN
    IF rows.unique_keys IS NULL THEN
        BEGIN
            INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, foreign_trace, trigger, body)
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key),
                coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.foreign_trace, coalesce(its_trigger, mainspring.trigger_of(r.body)), opening || r.body
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
            INSERT INTO mainspring.live (
                id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, trigger, body
            )
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key),
                coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.unique_key, r.foreign_trace, coalesce(its_trigger, mainspring.trigger_of(r.body)), opening || r.body
            FROM unnest(
                rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces,
                rows.unique_keys
            ) r (id, created, body, key, lane, priority, due, foreign_trace, unique_key)
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT array_agg(i.id) INTO added FROM inserted i;
    END IF;
    ended := mainspring.remove_ended(added, rows.low, rows.high);
    IF news IS NOT NULL THEN
        PERFORM pg_notify(split_part('mainspring.', '.', 1), news);
    END IF;
    IF ended IS NULL AND cardinality(added) = cardinality(rows.ids) THEN
        RETURN NULL;
    END IF;
    rows.bodies := ARRAY(SELECT opening || b.body FROM unnest(rows.bodies) WITH ORDINALITY b (body, n) ORDER BY b.n);
    RETURN mainspring.insert_missed(rows, added, ended, now);
END
$$;
CREATE FUNCTION mainspring.insert_keyless(rows mainspring.incoming[], now bigint) RETURNS uuid[]
    LANGUAGE plpgsql
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
        PERFORM mainspring.ensure_incarnations(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    END LOOP;
    ended := mainspring.remove_ended(added);
    IF ended IS NULL AND cardinality(added) = cardinality(rows) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT array_agg(r.id) FROM unnest(rows) r
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
    );
END
$$;
CREATE FUNCTION mainspring.insert_live(r mainspring.incoming, job integer, now bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION mainspring.insert_missed(rows mainspring.fresh, added uuid[], ended uuid[], now bigint) RETURNS json
    LANGUAGE plpgsql
    AS $$
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
        SELECT * INTO one FROM mainspring.insert_one(r, now);
        IF one.outcome <> 'added' THEN
            refused := refused || json_build_array(n, one.outcome, one.holder);
        END IF;
    END LOOP;
    RETURN nullif(array_to_json(refused)::text, '[]')::json;
END
$$;
CREATE FUNCTION mainspring.insert_one(r mainspring.incoming, now bigint, OUT outcome text, OUT holder uuid) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
        outcome := CASE WHEN mainspring.insert_finished(r, job) THEN 'added' ELSE 'duplicate' END;
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
    IF NOT mainspring.insert_finished(r, job) THEN
        outcome := 'duplicate';
        holder := NULL;
    END IF;
END
$$;
CREATE FUNCTION mainspring.insert_refused_ticks(t mainspring.ticks, won bigint[], numbers bigint[], added uuid[], ended uuid[], now bigint) RETURNS json
    LANGUAGE plpgsql
    AS $$
DECLARE
    row mainspring.incoming;
    one record;
    added_as record;
    answers json[] := '{}';
BEGIN
    FOR one IN
        SELECT r.*, w.number, r.id = ANY (ended) AS known
        FROM unnest(won, numbers) w (place, number)
        JOIN unnest(
            t.jobs, t.job_ids, t.ids, t.lanes, t.priorities, t.created, t.dues, t.bodies, t.overlap_keys,
            t.running_keys, t.staged
        ) WITH ORDINALITY r (
            job, job_id, id, lane, priority, created, due, body, overlap_key, running_key, staged, place
        ) ON r.place = w.place
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
        ORDER BY r.place
    LOOP
        row.id := one.id; row.job := one.job; row.job_id := one.job_id; row.state := 'pending'; row.lane := one.lane;
        row.priority := one.priority; row.created := one.created; row.due := one.due; row.body := one.body;
        row.number := one.number; row.staged := one.staged; row.overlap_key := one.overlap_key;
        row.running_overlap_key := one.running_key; row.todo := ((one.body || '}')::json ->> 'todo')::boolean;
        SELECT * INTO added_as FROM mainspring.insert_one(row, now);
        answers := answers || json_build_array(one.place, added_as.outcome, added_as.holder);
    END LOOP;
    RETURN array_to_json(answers);
END
$$;
CREATE FUNCTION mainspring.insert_rows(keyless json, others json, audits json, OUT known uuid[], OUT outcomes json) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keyless_rows mainspring.incoming[] := mainspring.incoming(keyless);
    other_rows mainspring.incoming[] := mainspring.incoming(others);
    special uuid[];
BEGIN
    IF keyless IS NOT NULL THEN
        known := mainspring.insert_keyless(keyless_rows, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.insert_each(other_rows, now);
    END IF;
    special := mainspring.limited_rows(keyless_rows, known, other_rows, outcomes);
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    IF audits IS NOT NULL AND (
        json_array_length(keyless) > coalesce(cardinality(known), 0)
        OR EXISTS (SELECT FROM json_array_elements(outcomes) one WHERE one->>0 IN ('added', 'skipped'))
    ) THEN
        PERFORM mainspring.write_audits(audits);
    END IF;
END
$$;
CREATE FUNCTION mainspring.insert_single(wanted uuid, at bigint, its_body text, its_job_id text, its_job text, its_lane text, its_priority integer, its_due bigint, trace text, its_key text, news text) RETURNS json
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '10ms'
    AS $$
DECLARE
    later bigint := coalesce(its_due, at);
BEGIN
    INSERT INTO mainspring.live (
        id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, trigger, body
    )
    SELECT wanted, at, later, i.key, its_priority, CASE WHEN later <= mainspring.now_micros() THEN 1 ELSE 0 END,
        its_lane, its_key, trace, mainspring.trigger_of(its_body), its_body
    FROM mainspring.incarnation i WHERE i.job_id = its_job_id
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN mainspring.insert_fresh(ROW(
            ARRAY[wanted], ARRAY[at], ARRAY[its_body], ARRAY[its_job_id], ARRAY[its_job], ARRAY[its_lane],
            ARRAY[its_priority], ARRAY[later], ARRAY[trace], ARRAY[its_key], wanted, wanted
        )::mainspring.fresh, '', news);
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
CREATE FUNCTION mainspring.insert_tick_rows(of_job text, keyless mainspring.incoming[], others mainspring.incoming[], now bigint) RETURNS json
    LANGUAGE plpgsql
    AS $$
DECLARE
    base bigint;
    known uuid[];
    outcomes json;
    n integer;
BEGIN
    IF keyless IS NULL AND others IS NULL THEN
        RETURN '{}'::json;
    END IF;
    SELECT i.last_number INTO base FROM mainspring.incarnation i WHERE i.job_id = of_job FOR UPDATE;
    FOR n IN 1 .. coalesce(cardinality(keyless), 0) LOOP
        base := base + 1;
        keyless[n].number := base;
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(others), 0) LOOP
        base := base + 1;
        others[n].number := base;
    END LOOP;
    IF keyless IS NOT NULL THEN
        known := mainspring.insert_keyless(keyless, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.insert_each(others, now);
    END IF;
    UPDATE mainspring.incarnation i SET last_number = base WHERE i.job_id = of_job;
    RETURN json_build_object('known', known, 'outcomes', outcomes);
END
$$;
CREATE FUNCTION mainspring.is_awaited(of_key text, with_token boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM mainspring.live l WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token);
END
$$;
CREATE FUNCTION mainspring.is_even(lanes text[], wanted integer) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    each integer := (wanted + cardinality(lanes) - 1) / cardinality(lanes);
    level integer;
    best integer;
    worst integer;
    this_lane text;
BEGIN
    FOREACH this_lane IN ARRAY lanes LOOP
        best := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                 ORDER BY l.priority DESC, l.id LIMIT 1);
        worst := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                  ORDER BY l.priority DESC, l.id OFFSET each - 1 LIMIT 1);
        IF worst IS DISTINCT FROM best OR best IS DISTINCT FROM coalesce(level, best) THEN
            RETURN false;
        END IF;
        level := best;
    END LOOP;
    RETURN true;
END
$$;
CREATE FUNCTION mainspring.judge(picked uuid[], new_owner text, stamp bigint, until bigint, now bigint, OUT claimable uuid[], OUT blocked uuid[], OUT holders uuid[], OUT woken uuid[], OUT left_ready integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    -- per key that was locked
    keys text[]; used integer[]; levels double precision[]; sinces bigint[]; rates double precision[]; bursts integer[];
    slot_looks bigint[]; token_looks bigint[];
    -- per limit of one row; rows next to each other nearly always have the same
    read text := ''; ns integer[]; slots integer[]; its_rates double precision[]; its_bursts integer[]; numbers text[];
    -- rows to park, together as long as no row is woken
    parked uuid[] := '{}'; parked_keys text[] := '{}'; parked_kinds boolean[] := '{}'; parked_numbers text[] := '{}';
    -- how many of the first limits of a row have room that it cannot use
    unused integer;
    r record;
    n integer;
    level double precision;
    holder uuid;
BEGIN
    SELECT array_agg(s.key), array_agg(s.running), array_agg(s.level), array_agg(s.since), array_agg(s.rate),
        array_agg(s.burst), array_agg(s.slot_look), array_agg(s.token_look)
    INTO keys, used, levels, sinces, rates, bursts, slot_looks, token_looks
    FROM unnest(mainspring.hold_keys(ARRAY(
        SELECT DISTINCT l.limits FROM mainspring.live l WHERE l.id = ANY (picked) AND l.limits IS NOT NULL
    ))) s;
    left_ready := 0;
    <<each_row>>
    FOR r IN
        SELECT l.id, l.limits, l.staged FROM unnest(picked) WITH ORDINALITY p (id, n)
        JOIN mainspring.live l ON l.id = p.id ORDER BY p.n
    LOOP
        IF r.limits IS DISTINCT FROM read THEN
            read := r.limits;
            SELECT coalesce(array_agg(coalesce(array_position(keys, x->>'key'), 0)), '{}'),
                array_agg((x->>'concurrency')::integer), array_agg((x->>'rate')::double precision),
                array_agg((x->>'burst')::integer),
                array_agg(coalesce(x->>'concurrency', (x->>'rate') || '/' || (x->>'burst')))
            INTO ns, slots, its_rates, its_bursts, numbers FROM json_array_elements(read::json) x;
        END IF;
        unused := 0;
        FOR i IN 1 .. cardinality(ns) LOOP
            n := ns[i];
            IF n = 0 THEN
                left_ready := left_ready + 1;
                CONTINUE each_row;
            END IF;
            IF slots[i] IS NOT NULL THEN
                CONTINUE WHEN used[n] < slots[i];
                slot_looks[n] := least(slot_looks[n], now + 5000000);
            ELSE
                level := mainspring.refilled(levels[n], sinces[n], now, its_rates[i], its_bursts[i]);
                CONTINUE WHEN mainspring.tokens_in(level) > 0;
                token_looks[n] := least(token_looks[n], mainspring.next_look(level, now, its_rates[i]));
            END IF;
            parked := parked || r.id;
            parked_keys := parked_keys || keys[n];
            parked_kinds := parked_kinds || (slots[i] IS NULL);
            parked_numbers := parked_numbers || numbers[i];
            unused := i - 1;
            CONTINUE each_row WHEN unused = 0;
            EXIT;
        END LOOP;
        IF unused = 0 AND r.staged THEN
            holder := mainspring.claim_staged(r.id, new_owner, stamp, until, now);
            IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id AND greatest(l.phase, 0::smallint) <> 2) THEN
                blocked := blocked || r.id;
                holders := holders || holder;
                unused := cardinality(ns);
                CONTINUE each_row WHEN unused = 0;
            ELSE
                UPDATE mainspring.live l SET parked = NULL, for_token = NULL, line = NULL, place = NULL
                WHERE l.id = r.id AND l.parked IS NOT NULL;
            END IF;
        ELSIF unused = 0 THEN
            claimable := claimable || r.id;
        END IF;
        IF unused > 0 THEN
            IF parked <> '{}' THEN
                PERFORM mainspring.park(parked, parked_keys, parked_kinds, parked_numbers);
                parked := '{}'; parked_keys := '{}'; parked_kinds := '{}'; parked_numbers := '{}';
            END IF;
            FOR j IN 1 .. unused LOOP
                n := ns[j];
                woken := woken || mainspring.wake(keys[n], slots[j] IS NULL, 1, used[n], levels[n], sinces[n], now);
            END LOOP;
            CONTINUE each_row;
        END IF;
        FOR i IN 1 .. cardinality(ns) LOOP
            n := ns[i];
            IF array_position(ns, n) = i THEN  -- once per key, whatever kinds of limits name it
                used[n] := used[n] + 1;
            END IF;
            IF slots[i] IS NULL THEN
                levels[n] := mainspring.refilled(levels[n], sinces[n], now, its_rates[i], its_bursts[i]) - 1;
                sinces[n] := now;
                rates[n] := its_rates[i];
                bursts[n] := its_bursts[i];
            END IF;
        END LOOP;
    END LOOP;
    IF parked <> '{}' THEN
        PERFORM mainspring.park(parked, parked_keys, parked_kinds, parked_numbers);
    END IF;
    UPDATE mainspring.limit_state s SET
        running = x.running, level = x.level, since = x.since, rate = x.rate, burst = x.burst,
        slot_look = CASE WHEN x.slot_look IS NOT NULL AND mainspring.is_awaited(x.key, false) THEN x.slot_look END,
        token_look = CASE WHEN x.token_look IS NOT NULL AND mainspring.is_awaited(x.key, true) THEN x.token_look END
    FROM unnest(keys, used, levels, sinces, rates, bursts, slot_looks, token_looks)
        x (key, running, level, since, rate, burst, slot_look, token_look)
    WHERE s.key = x.key;
END
$$;
CREATE FUNCTION mainspring.keep_partitions() RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '200ms'
    AS $$
DECLARE
    hour CONSTANT bigint := extract(epoch FROM clock_timestamp())::bigint / 3600;
    month date := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
    IF EXISTS (SELECT FROM mainspring.meta WHERE key = 'partitions' AND value >= hour) THEN
        RETURN false;
    END IF;
    UPDATE mainspring.meta SET value = hour WHERE key = 'partitions' AND value < hour;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM mainspring.make_partition((month + n * interval '1 month')::date) FROM generate_series(0, 2) n;
        PERFORM mainspring.drop_empty_partitions((month - interval '1 month')::date);
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
        RETURN false;
    END;
    RETURN true;
END
$$;
CREATE FUNCTION mainspring.keys_in(all_limits text[]) RETURNS TABLE(key text, times bigint)
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT x.key, count(*) FROM (
        SELECT DISTINCT a.n, e->>'key' COLLATE "C" AS key
        FROM unnest(all_limits) WITH ORDINALITY a (limits, n) CROSS JOIN LATERAL json_array_elements(a.limits::json) e
    ) x GROUP BY x.key ORDER BY x.key
$$;
CREATE FUNCTION mainspring.keys_of(job_ids text[], jobs text[]) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    keys integer[];
BEGIN
    FOR try IN 1..2 LOOP
        keys := ARRAY(
            SELECT (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = x.job_id)
                FROM unnest(job_ids) x (job_id)
        );
        EXIT WHEN array_position(keys, NULL) IS NULL;
        PERFORM mainspring.ensure_incarnations(job_ids, jobs);
    END LOOP;
    RETURN keys;
END
$$;
CREATE FUNCTION mainspring.leave(left_limits text[], left_keys text[]) RETURNS uuid[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_nestloop TO 'on'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    s record;
    woken uuid[];
    at_once CONSTANT bigint := 0;
BEGIN
    FOR s IN
        SELECT l.key, l.running, l.slot_look, l.token_look, k.times, k.changed
        FROM (
            SELECT x.key, sum(x.times)::integer AS times, bool_or(x.times = 0) AS changed
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
            woken := woken || mainspring.wake(
                s.key, false, s.times, greatest(s.running - s.times, 0), NULL, NULL, mainspring.now_micros()
            );
        END IF;
        IF s.changed THEN
            s.slot_look := CASE WHEN s.slot_look IS NOT NULL THEN at_once END;
            s.token_look := CASE WHEN s.token_look IS NOT NULL THEN at_once END;
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
CREATE FUNCTION mainspring.level_by(line text, level double precision, since bigint, now bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT mainspring.refilled(
        level, since, now, split_part(line, '/', 1)::double precision,
        split_part(split_part(line, ' ', 1), '/', 2)::integer
    )
$$;
CREATE FUNCTION mainspring.limited_rows(keyless mainspring.incoming[], known uuid[], others mainspring.incoming[], outcomes json) RETURNS uuid[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT array_agg(x.id) FROM (
        SELECT r.id FROM unnest(keyless) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.id <> ALL (coalesce(known, '{}'))
        UNION ALL
        SELECT r.id FROM ROWS FROM (unnest(others), json_array_elements(outcomes)) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.value->>0 = 'added'
    ) x
$$;
CREATE FUNCTION mainspring.limited_turns(lanes text[], wanted integer, turn integer) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        WITH candidate AS (
            SELECT o.lane, o.seats_as, o.kind, c.priority, c.tag, c.id
            FROM (
                SELECT x.lane, split_part(x.lane, '/', 4) = 'fair' AS kind,
                    split_part(x.lane, '/', 1) || '/' || split_part(x.lane, '/', 2) COLLATE "C" AS seats_as
                FROM unnest(lanes) x (lane)
            ) o CROSS JOIN LATERAL mainspring.front(o.lane, wanted) c
        ), ranked AS (
            SELECT lane, priority, row_number() OVER (PARTITION BY priority, seats_as, kind ORDER BY tag, id) AS round,
                dense_rank() OVER (PARTITION BY priority ORDER BY seats_as, kind) - 1 AS seat
            FROM candidate
        ), seated AS (
            SELECT lane, priority, round, seat, max(seat) OVER (PARTITION BY priority) + 1 AS seats FROM ranked
        ), chosen AS (
            SELECT lane, row_number() OVER (ORDER BY priority DESC, round, (seat - turn % seats + seats) % seats) AS n
            FROM seated
        )
        SELECT array_agg(lane ORDER BY n) FROM chosen WHERE n <= wanted
    );
END
$$;
CREATE FUNCTION mainspring.list_job() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    known integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = new.id);
    row mainspring.job_list;
BEGIN
    IF known IS NULL THEN
        INSERT INTO mainspring.incarnation (job_id, job) VALUES (new.id, new.name)
        ON CONFLICT (job_id) DO UPDATE SET job = excluded.job RETURNING key INTO known;
    END IF;
    row := mainspring.listed(new, known);
    INSERT INTO mainspring.job_list SELECT row.* ON CONFLICT (name) DO UPDATE SET
        job_key = excluded.job_key, handler = excluded.handler, queue = excluded.queue, origin = excluded.origin,
        paused = excluded.paused, cancelled = excluded.cancelled, planned = excluded.planned,
        created = excluded.created, updated = excluded.updated, search = excluded.search;
    RETURN NULL;
END
$$;
CREATE TABLE mainspring.job_list (
    name text NOT NULL COLLATE pg_catalog."C",
    job_key integer NOT NULL,
    handler text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    origin text NOT NULL,
    paused boolean NOT NULL,
    cancelled boolean NOT NULL,
    planned boolean NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    search text NOT NULL COLLATE pg_catalog."C"
);
CREATE FUNCTION mainspring.listed(j mainspring.job, job_key integer) RETURNS mainspring.job_list
    LANGUAGE sql STABLE
    AS $$
    SELECT (
        j.name, job_key, t.row->>'handler', t.row->>'queue', j.origin, j.paused IS NOT NULL, j.cancelled IS NOT NULL,
        j.due IS NOT NULL, j.created, j.updated, t.search
    )::mainspring.job_list
    FROM json_to_record(j.template::json) AS t (row json, search text)
$$;
CREATE FUNCTION mainspring.lock_front(of_lane text, most bigint) RETURNS TABLE(id uuid, nth bigint)
    LANGUAGE plpgsql ROWS 100
    AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane
            ORDER BY l.priority DESC, l.tag, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    ELSE
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    END IF;
END
$$;
CREATE FUNCTION mainspring.look(now bigint) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    s mainspring.limit_state;
    woken uuid[];
BEGIN
    FOR s IN
        SELECT l.* FROM mainspring.limit_state l
        WHERE l.ctid = ANY (ARRAY(
            SELECT e.ctid FROM mainspring.limit_state e
            WHERE (e.slot_look IS NOT NULL OR e.token_look IS NOT NULL) AND least(e.slot_look, e.token_look) <= now
            ORDER BY least(e.slot_look, e.token_look) LIMIT 100
        ) || ARRAY(
            SELECT e.ctid FROM mainspring.limit_state e
            WHERE (e.slot_look IS NOT NULL OR e.token_look IS NOT NULL)
                AND least(e.slot_look, e.token_look) > now + 5000000
            LIMIT 100
        ))
        FOR UPDATE SKIP LOCKED
    LOOP
        IF s.slot_look <= now OR s.slot_look > now + 5000000 THEN
            woken := woken || mainspring.wake(s.key, false, NULL, s.running, NULL, NULL, now);
            s.slot_look := CASE WHEN mainspring.is_awaited(s.key, false) THEN now + 5000000 END;
        END IF;
        IF s.token_look <= now OR s.token_look > now + 5000000 THEN
            s.since := CASE WHEN s.since > now THEN now ELSE s.since END;
            woken := woken || mainspring.wake(s.key, true, NULL, NULL, s.level, s.since, now);
            s.token_look := mainspring.next_token_look(s.key, s.level, s.since, now);
        END IF;
        UPDATE mainspring.limit_state l SET slot_look = s.slot_look, token_look = s.token_look, since = s.since
        WHERE l.key = s.key;
    END LOOP;
    RETURN woken;
END
$$;
CREATE FUNCTION mainspring.make_partition(month date) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    name text := to_char(month, '"history_"YYYY_MM');
    low uuid;
    high uuid;
BEGIN
    IF to_regclass('mainspring.' || name) IS NOT NULL THEN
        RETURN false;
    END IF;
    SELECT b.low, b.high INTO low, high FROM mainspring.month_bounds(month) b;
    EXECUTE format('CREATE TABLE mainspring.%I (LIKE mainspring.history INCLUDING DEFAULTS)', name);
    EXECUTE format('ALTER TABLE mainspring.%I ADD CONSTRAINT of_month CHECK (id >= %L AND id < %L)', name, low, high);
    LOCK TABLE mainspring.history_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH moved AS (DELETE FROM mainspring.history_default WHERE id >= %L AND id < %L RETURNING *)
         INSERT INTO mainspring.%I SELECT * FROM moved', low, high, name
    );
    EXECUTE format(
        'ALTER TABLE mainspring.history ATTACH PARTITION mainspring.%I FOR VALUES FROM (%L) TO (%L)', name, low, high
    );
    EXECUTE format('ALTER TABLE mainspring.%I DROP CONSTRAINT of_month', name);
    RETURN true;
END
$$;
CREATE FUNCTION mainspring.merged(own text, given json) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN given IS NULL THEN own
                WHEN own = '{}' THEN given::text
                ELSE (
        SELECT '{' || string_agg(to_json(p.key)::text || ':' || p.value, ',' ORDER BY p.part, p.n) || '}'
        FROM (
            SELECT o.key, coalesce(given->o.key, o.value)::text AS value, 1 AS part, o.n
            FROM json_each(own::json) WITH ORDINALITY o (key, value, n)
            UNION ALL
            SELECT g.key, g.value::text, 2, g.n FROM json_each(given) WITH ORDINALITY g (key, value, n)
            WHERE own::json->g.key IS NULL
        ) p
    ) END
$$;
CREATE FUNCTION mainspring.month_bounds(month date, OUT low uuid, OUT high uuid) RETURNS record
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT mainspring.id_at((extract(epoch FROM month::timestamp AT TIME ZONE 'UTC') * 1000000)::bigint),
           mainspring.id_at((extract(epoch FROM (month + interval '1 month') AT TIME ZONE 'UTC') * 1000000)::bigint)
$$;
CREATE FUNCTION mainspring.new_id(now bigint) RETURNS uuid
    LANGUAGE sql
    AS $$
    SELECT (lpad(to_hex(now / 1000), 12, '0') || '7' || substr(r, 1, 3) || substr(r, 17, 16))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS r) x
$$;
CREATE FUNCTION mainspring.next_line(of_key text, with_token boolean, after text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        SELECT l.line FROM mainspring.live l
        WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token AND l.line > after ORDER BY l.line LIMIT 1
    );
END
$$;
CREATE FUNCTION mainspring.next_look(level double precision, now bigint, rate double precision) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT now + least(5000000, ceil(greatest(0, 1 - level) * 1000000 / rate))::bigint
$$;
CREATE FUNCTION mainspring.next_token(token bigint, stamp bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT (((token >> 32) + 1) << 32) | stamp $$;
CREATE FUNCTION mainspring.next_token_look(of_key text, level double precision, since bigint, now bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, true, '');
    held double precision;
    look bigint;
BEGIN
    WHILE this_line IS NOT NULL LOOP
        held := mainspring.level_by(this_line, level, since, now);
        look := least(look, mainspring.next_look(
            held - mainspring.tokens_in(held), now, split_part(this_line, '/', 1)::double precision
        ));
        this_line := mainspring.next_line(of_key, true, this_line);
    END LOOP;
    RETURN look;
END
$$;
CREATE FUNCTION mainspring.now_micros() RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
CREATE FUNCTION mainspring.number_of(wanted_job integer, wanted uuid) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT n.first + array_position(n.ids, wanted) - 1
    FROM mainspring.numbers n
    WHERE n.job_key = wanted_job AND n.span = mainspring.span_of(wanted)
        AND n.low <= wanted AND n.high >= wanted AND wanted = ANY (n.ids)
    LIMIT 1
$$;
CREATE FUNCTION mainspring.other_lanes(handlers text[], queues text[], but text) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
            SELECT coalesce((
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but)
            UNION ALL
            SELECT CASE WHEN found.lane < but THEN coalesce((
                SELECT l.lane FROM mainspring.live l
                WHERE l.phase = 1 AND l.lane > found.lane AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but) ELSE (
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1
            ) END
            FROM found WHERE found.lane IS NOT NULL
        )
        SELECT array_agg(lane) FROM found
        WHERE lane <> but AND split_part(lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;
CREATE FUNCTION mainspring.park(ids uuid[], keys text[], kinds boolean[], numbers text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    r record;
BEGIN
    UPDATE mainspring.live l SET
        phase = -1, parked = x.key, for_token = x.kind, line = x.numbers || ' ' || l.lane, place = 0
    FROM unnest(ids, keys, kinds, numbers) x (id, key, kind, numbers) WHERE l.id = x.id AND l.share IS NULL;
    FOR r IN
        SELECT l.id, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step, x.key, x.kind,
            x.numbers || ' ' || l.lane AS line,
            CASE WHEN (l.parked, l.for_token, l.line) = (x.key, x.kind, x.numbers || ' ' || l.lane)
                THEN l.place END AS place
        FROM unnest(ids, keys, kinds, numbers) WITH ORDINALITY x (id, key, kind, numbers, n)
        JOIN mainspring.live l ON l.id = x.id WHERE l.share IS NOT NULL ORDER BY x.n
    LOOP
        IF r.place IS NULL THEN
            r.place := greatest(coalesce((
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority
                ORDER BY l.place LIMIT 1
            ), 0), r.step + (
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority AND l.share = r.share
                ORDER BY l.place DESC LIMIT 1
            ));
        END IF;
        UPDATE mainspring.live l SET
            phase = -1, parked = r.key, for_token = r.kind, line = r.line, place = r.place, tag = NULL
        WHERE l.id = r.id;
    END LOOP;
END
$$;
CREATE FUNCTION mainspring.phase_of(state text, due bigint, now bigint) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE state WHEN 'running' THEN 2 WHEN 'waiting' THEN 3
                        ELSE CASE WHEN due <= now THEN 1 ELSE 0 END END::smallint $$;
CREATE FUNCTION mainspring.promote(now bigint, OUT upcoming bigint, OUT fair uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    IF upcoming <= now THEN
        WITH promoted AS (
            UPDATE mainspring.live SET phase = 1, blocked = false
            WHERE ctid = ANY (ARRAY(
                SELECT l.ctid FROM mainspring.live l WHERE l.phase = 0 AND l.due <= now ORDER BY l.due LIMIT 1000
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id, share
        )
        SELECT array_agg(p.id) FILTER (WHERE p.share IS NOT NULL) INTO fair FROM promoted p;
        upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    END IF;
END
$$;
CREATE FUNCTION mainspring.prune_numbers(of_job text) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    k integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = of_job);
    oldest uuid := least(
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state = 'completed' ORDER BY h.id LIMIT 1),
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state <> 'completed' ORDER BY h.id LIMIT 1)
    );
BEGIN
    DELETE FROM mainspring.numbers n
    WHERE n.job_key = k AND n.span < mainspring.span_of(coalesce(oldest, mainspring.id_at(mainspring.now_micros())));
END
$$;
CREATE FUNCTION mainspring.purge_some(most integer) RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    gone integer := (SELECT p.job_key FROM mainspring.purge p LIMIT 1);
    ids uuid[];
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    ids := ARRAY(
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state = 'completed'
        UNION ALL
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state <> 'completed'
        LIMIT most
    );
    DELETE FROM mainspring.history h WHERE h.id = ANY (ids);
    DELETE FROM mainspring.log g WHERE g.execution_id = ANY (ids);
    IF cardinality(ids) < most THEN
        DELETE FROM mainspring.numbers n WHERE n.job_key = gone;
        DELETE FROM mainspring.purge p WHERE p.job_key = gone;
    END IF;
    RETURN true;
END
$$;
CREATE FUNCTION mainspring.rare_fields(r mainspring.live) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
BEGIN
    RETURN mainspring.rest_of(r);
END
$$;
CREATE FUNCTION mainspring.ready_lanes(handlers text[], queues text[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1)
        FROM found WHERE found.lane IS NOT NULL
    )
    SELECT array_agg(lane) FROM found
    WHERE split_part(lane, '/', 2) = ANY (handlers) AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;
CREATE FUNCTION mainspring.refilled(level double precision, since bigint, now bigint, rate double precision, burst integer) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT coalesce(least(burst, level + greatest(0, now - since) * rate / 1000000), burst)
$$;
CREATE FUNCTION mainspring.remember(since bigint, priority integer, last uuid, lane text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM set_config('mainspring.claimed_up_to', concat_ws(chr(30), since, priority, last, lane), false);
END
$$;
CREATE FUNCTION mainspring.remove_ended(added uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
        SELECT mainspring.remove_ended(x.ids, x.ids[1], x.ids[cardinality(x.ids)])
        FROM (SELECT array_agg(a.id ORDER BY a.id) AS ids FROM unnest(added) a (id)) x
    );
END
$$;
CREATE FUNCTION mainspring.remove_ended(added uuid[], low uuid, high uuid) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION mainspring.report(notes json) RETURNS integer[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    one record;
    last integer;
    stored integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM ROWS FROM (
            json_to_recordset(notes) AS (
                id uuid, token bigint, owner text, progress text, counters text, logs json, n integer
            )
        ) x ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            progress = coalesce(one.progress, l.progress), counters = coalesce(one.counters, l.counters)
        WHERE l.id = one.id AND l.phase = 2 AND l.token = one.token AND l.owner = one.owner;
        CONTINUE WHEN NOT FOUND;
        stored := stored || one.n;
        IF one.logs IS NOT NULL THEN
            last := coalesce((SELECT max(g.seq) FROM mainspring.log g WHERE g.execution_id = one.id), 0);
            INSERT INTO mainspring.log (execution_id, seq, at, level, message, logger)
            SELECT one.id, last + g.n, (g.line->>0)::bigint, g.line->>1, g.line->>2, coalesce(g.line->>3, '')
            FROM json_array_elements(one.logs) WITH ORDINALITY g (line, n)
            WHERE g.n > json_array_length(one.logs) - 1000;
            last := last + json_array_length(one.logs);
            IF last > 1000 THEN
                DELETE FROM mainspring.log g WHERE g.execution_id = one.id AND g.seq <= last - 1000;
            END IF;
        END IF;
    END LOOP;
    RETURN stored;
END
$$;
CREATE FUNCTION mainspring.request_cancel(requests json) RETURNS integer[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    one record;
    asked integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM json_to_recordset(requests) AS x (
            id uuid, token bigint, at bigint, reason text, audit json, n integer
        ) ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            cancel_requested = coalesce(l.cancel_requested, one.at),
            cancel_reason = CASE WHEN l.cancel_requested IS NULL THEN one.reason ELSE l.cancel_reason END
        WHERE l.id = one.id AND l.token = one.token AND l.phase = 2;
        CONTINUE WHEN NOT FOUND;
        asked := asked || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN asked;
END
$$;
CREATE FUNCTION mainspring.rest_of(r mainspring.live) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN r.failures = 0 AND r.crashes = 0 AND NOT r.alone AND NOT r.staged AND num_nonnulls(
            r.number, r.unique_key, r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_requested,
            r.cancel_reason, r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress
        ) = 0 THEN '}' ELSE
            ',"failures":' || r.failures || ',"crashes":' || r.crashes
            || CASE WHEN r.alone THEN ',"alone":true' ELSE '' END
            || CASE WHEN r.staged THEN ',"staged":true' ELSE '' END
            || mainspring.field('number', r.number)
            || mainspring.field('unique_key', r.unique_key)
            || mainspring.field('overlap_key', r.overlap_key)
            || mainspring.field('running_unique_key', r.running_unique_key)
            || mainspring.field('running_overlap_key', r.running_overlap_key)
            || mainspring.field('cancel_requested', r.cancel_requested)
            || mainspring.field('cancel_reason', r.cancel_reason)
            || mainspring.field('reason', r.reason)
            || mainspring.field('error', r.error)
            || mainspring.field('attempts_json', r.attempts)
            || mainspring.field('result_json', r.result)
            || mainspring.field('counters_json', r.counters)
            || mainspring.field('metadata_json', r.metadata)
            || mainspring.field('progress_json', r.progress)
            || '}'
        END
$$;
CREATE FUNCTION mainspring.restore(rows json, unkept uuid[], log_lines json) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    added bigint;
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
    SELECT count(*), array_agg(g.id) FILTER (WHERE g.lives AND (g.share IS NOT NULL OR g.limits IS NOT NULL))
    INTO added, special FROM given g;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    RETURN added;
END
$$;
CREATE FUNCTION mainspring.row_of(request json, now bigint) RETURNS mainspring.incoming
    LANGUAGE plpgsql
    AS $$
DECLARE
    j mainspring.job;
    t jsonb;
    r mainspring.incoming;
    stages boolean := json_typeof(request->'unique') = 'object'
        AND request->'unique'->>'enqueued' IS DISTINCT FROM request->'unique'->>'running';
    running text := request->'unique'->>'running';
    params text;
    queue text;
    trace text := mainspring.trace_of(request->>'traceparent');
BEGIN
    j := mainspring.enqueueable(request);
    t := j.template::jsonb;
    t := (t->'row')
        || CASE WHEN request->>'tenant' IS NULL THEN '{}' ELSE t->'tenant' END
        || CASE WHEN NOT stages THEN '{}' WHEN request->>'tenant' IS NULL THEN t->'stages' ELSE t->'tenant_stages' END;
    queue := coalesce(request->>'queue', t->>'queue');
    params := mainspring.merged(t->>'params', nullif(request->>'params', '')::json);
    IF octet_length(params) > 262144 THEN
        RAISE EXCEPTION 'params: % bytes are more than the 262144 allowed', octet_length(params);
    END IF;
    PERFORM params::jsonb, (request->>'metadata')::jsonb;  -- refuses what no store takes, such as \u0000
    r.id := mainspring.new_id(now);
    r.job := j.name;
    r.job_id := j.id;
    r.created := now;
    r.due := coalesce((extract(epoch FROM (request->>'start_at')::timestamptz) * 1000000)::bigint, now);
    r.priority := coalesce((request->>'priority')::smallint, (t->>'priority')::integer);
    r.tenant := request->>'tenant';
    r.metadata := request->>'metadata';
    r.foreign_trace := trace;
    r.unique_key := CASE json_typeof(request->'unique') WHEN 'object' THEN request->'unique'->>'enqueued'
                                                        ELSE request->>'unique' END;
    r.running_unique_key := CASE t->>'running_unique_key' WHEN '{unique}' THEN r.unique_key
                                                          WHEN '{running}' THEN running END;
    r.overlap_key := t->>'overlap_key';
    -- If it is skipped, its follow-up decides whether a webhook wants to hear of it.
    r.todo := r.overlap_key IS NOT NULL AND EXISTS (SELECT FROM mainspring.entry e WHERE e.kind = 'webhook');
    r.running_overlap_key := t->>'running_overlap_key';
    r.slots := (t->>'overlap_slots')::integer;
    r.staged := coalesce((t->>'staged')::boolean, false);
    r.share := coalesce(request->>'share', CASE t->>'share' WHEN '{tenant}' THEN r.tenant END);
    r.weight := CASE WHEN r.share IS NOT NULL
                     THEN nullif(coalesce(t->'weights'->>r.share, t->'weights'->>'*'), '1')::integer END;
    r.limits := (
        SELECT '[' || string_agg(
            '{"key":' || to_json(mainspring.filled(l->>0, r.tenant, j.name, queue, params::json))::text || (l->>1), ','
        ) || ']' FROM jsonb_array_elements(nullif(t->'limits', 'null')) l
    );
    r.lane := replace(t->'lanes'->>CASE WHEN r.share IS NULL THEN 0 ELSE 1 END, '{queue}', queue);
    r.body := left(json_strip_nulls(json_build_object(
        'job', j.name, 'job_id', j.id, 'handler', t->>'handler', 'queue', queue, 'trigger', 'enqueue',
        'triggered_by', coalesce(request->>'by', 'sql'),
        'traceparent', CASE WHEN trace IS NOT NULL THEN request->>'traceparent' END,
        'trace_id', coalesce(trace, replace(r.id::text, '-', '')), 'params', params, 'policy', t->>'policy',
        'tenant', r.tenant, 'priority', r.priority, 'overlap_slots', r.slots, 'share', r.share, 'weight', r.weight,
        'limits', r.limits
    ))::text, -1);
    RETURN r;
END
$$;
CREATE FUNCTION mainspring.settle(batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[], OUT woken uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    left_limits text[];
    left_keys text[];
    waited uuid[];
    waited_keys text[];
    lasting record;
BEGIN
    IF batch.flags IS NOT NULL THEN
        SELECT array_agg(x.id) FILTER (WHERE x.parked IS NOT NULL),
            array_agg(x.parked) FILTER (WHERE x.parked IS NOT NULL)
        INTO waited, waited_keys
        FROM (SELECT l.id, l.parked FROM mainspring.live l WHERE l.id = ANY (batch.ids) ORDER BY l.id FOR UPDATE) x;
    END IF;
    SELECT s.applied, s.freed, s.fair, s.left_limits, s.left_keys INTO applied, freed, fair, left_limits, left_keys
    FROM mainspring.settle_final(batch, now) s;
    IF batch.flags IS NOT NULL THEN
        SELECT * INTO lasting FROM mainspring.settle_live(batch, now);
        applied := applied || lasting.applied;
        fair := fair || lasting.fair;
        left_limits := left_limits || lasting.left_limits;
        IF waited IS NOT NULL THEN
            SELECT left_keys || array_agg(w.key) INTO left_keys FROM unnest(waited, waited_keys) w (id, key)
            WHERE EXISTS (SELECT FROM unnest(applied) a (n) WHERE batch.ids[a.n] = w.id);
        END IF;
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
CREATE FUNCTION mainspring.settle_completed(batch mainspring.completions, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[], OUT woken uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION mainspring.settle_final(batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[], OUT left_limits text[], OUT left_keys text[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
    END IF;
END
$$;
CREATE FUNCTION mainspring.settle_live(batch mainspring.changes, now bigint, OUT applied integer[], OUT left_limits text[], OUT fair uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION mainspring.span_of(id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint >> 18 $$;
CREATE FUNCTION mainspring.stopped_jobs() RETURNS text[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.job_list l WHERE l.cancelled) THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE running (key) AS (
            (SELECT l.job_key FROM mainspring.live l WHERE l.phase >= 2 ORDER BY l.job_key LIMIT 1)
            UNION ALL
            SELECT (
                SELECT l.job_key FROM mainspring.live l WHERE l.phase >= 2
                    AND l.job_key > r.key ORDER BY l.job_key LIMIT 1
            )
            FROM running r WHERE r.key IS NOT NULL
        )
        SELECT array_agg(i.job_id)
        FROM running r
        JOIN mainspring.job_list l ON l.job_key = r.key AND l.cancelled
        JOIN mainspring.incarnation i ON i.key = r.key
    );
END
$$;
CREATE FUNCTION mainspring.tenants_of(parent uuid, body json, result text, wanted text) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN (body->>'policy')::json->'fan_out' IS NULL THEN NULL ELSE coalesce(
        (result::json->>wanted)::bigint,
        (SELECT count(*) FROM mainspring.history h
         WHERE h.parent_id = parent::text AND CASE wanted WHEN 'total' THEN true
            WHEN 'success' THEN h.state = 'completed' ELSE h.state NOT IN ('completed', 'skipped') END)
        + (SELECT count(*) FROM mainspring.live l WHERE l.parent_id = parent::text AND wanted = 'total')
    ) END
$$;
CREATE FUNCTION mainspring.todo_done(ids uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
BEGIN
    UPDATE mainspring.history h SET todo = false WHERE h.id = ANY (ids) AND h.todo;
    PERFORM mainspring.delete_finished(ARRAY(
        SELECT h.id FROM mainspring.history h WHERE h.id = ANY (ids) AND NOT h.keep
    ));
END
$$;
CREATE FUNCTION mainspring.tokens_in(level double precision) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT greatest(0, floor(level + 1e-6))::integer $$;
CREATE FUNCTION mainspring.trace_of(context text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN length(context) <= 713 AND length(split_part(context, ' ', 1)) <= 200 AND context !~ '[[:cntrl:]]'
                THEN nullif(substring(context FROM '^[^ -]*-([0-9a-f]{32})-[^ -]*-'), repeat('0', 32)) END
$$;
CREATE FUNCTION mainspring.trade(picked uuid[], trading uuid[], new_owner text, stamp bigint, until bigint, now bigint, OUT claimed text, OUT blocked text) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    one uuid;
    held uuid;
    holders uuid[] := '{}';
BEGIN
    FOREACH one IN ARRAY trading LOOP
        held := mainspring.claim_staged(one, new_owner, stamp, until, now);
        holders := holders || held;
    END LOOP;
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) FILTER (WHERE l.phase = 2),
           string_agg('[' || mainspring.as_json(l) || ',' || coalesce(to_json(s.holder)::text, 'null') || ']',
               ',' ORDER BY p.n)
               FILTER (WHERE l.phase = 0)
    INTO claimed, blocked
    FROM unnest(picked) WITH ORDINALITY p (id, n)
    JOIN mainspring.live l ON l.id = p.id
    LEFT JOIN unnest(trading, holders) s (id, holder) ON s.id = p.id
    WHERE l.id = ANY (picked);
END
$$;
CREATE FUNCTION mainspring.trigger_of(body text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN strpos(body, '"trigger":"') > 0 THEN nullif(substring(body
    FROM '"trigger":"([^"]*)"'), 'enqueue') END $$;
CREATE FUNCTION mainspring.turns(lanes text[], wanted integer, turn integer) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (
    WITH candidate AS (
        SELECT o.lane, c.priority, c.id
        FROM unnest(lanes) o (lane)
        CROSS JOIN LATERAL (
            SELECT l.priority, l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = o.lane ORDER BY l.priority DESC, l.id LIMIT wanted
        ) c
    ), ranked AS (
        SELECT lane, priority, row_number() OVER (PARTITION BY priority, lane ORDER BY id) AS round,
               dense_rank() OVER (PARTITION BY priority ORDER BY lane COLLATE "C") - 1 AS seat
        FROM candidate
    ), seated AS (
        SELECT lane, priority, round, seat, max(seat) OVER (PARTITION BY priority) + 1 AS seats FROM ranked
    ), chosen AS (
        SELECT lane, row_number() OVER (ORDER BY priority DESC, round, (seat - turn % seats + seats) % seats) AS n
        FROM seated
    )
    SELECT array_agg(lane ORDER BY n) FROM chosen WHERE n <= wanted
    );
END
$$;
CREATE FUNCTION mainspring.unblock(unique_keys text[], overlap_keys text[], now bigint, OUT freed boolean, OUT fair uuid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    WITH first AS (
        SELECT DISTINCT ON (k.key, replace(w.lane, '//limited', '')) w.id
        FROM unnest(unique_keys) k (key) CROSS JOIN LATERAL (
            SELECT l.id, l.lane, l.priority FROM mainspring.live l
            WHERE l.blocked AND l.running_unique_key = k.key AND l.due > now
            ORDER BY l.priority DESC, l.id LIMIT 20
        ) w ORDER BY k.key, replace(w.lane, '//limited', ''), w.priority DESC, w.id
    ), first_overlap AS (
        SELECT DISTINCT ON (k.key, replace(w.lane, '//limited', '')) w.id
        FROM unnest(overlap_keys) k (key) CROSS JOIN LATERAL (
            SELECT l.id, l.lane, l.priority FROM mainspring.live l
            WHERE l.blocked AND l.running_overlap_key = k.key AND l.due > now
            ORDER BY l.priority DESC, l.id LIMIT 20
        ) w ORDER BY k.key, replace(w.lane, '//limited', ''), w.priority DESC, w.id
    ), unblocked AS (
        UPDATE mainspring.live SET phase = 1, due = now, blocked = false
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.id = ANY (ARRAY(SELECT f.id FROM first f UNION SELECT o.id FROM first_overlap o))
                AND l.blocked AND l.due > now
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, share
    )
    SELECT count(*) > 0, array_agg(u.id) FILTER (WHERE u.share IS NOT NULL) INTO freed, fair FROM unblocked u;
END
$$;
CREATE FUNCTION mainspring.unlist_job() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM mainspring.job_list l WHERE l.name = old.name;
    RETURN NULL;
END
$$;
CREATE FUNCTION mainspring.wake(of_key text, with_token boolean, most bigint, used integer, level double precision, since bigint, now bigint) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, with_token, '');
    room bigint;
    ids uuid[];
    woken uuid[];
BEGIN
    WHILE this_line IS NOT NULL LOOP
        IF with_token THEN
            room := least(most, mainspring.tokens_in(mainspring.level_by(this_line, level, since, now)));
        ELSE
            room := least(most, split_part(this_line, ' ', 1)::integer - used);
        END IF;
        IF room > 0 THEN
            WITH ready AS (
                UPDATE mainspring.live l SET
                    phase = CASE WHEN l.share IS NULL THEN 1 ELSE 0 END,
                    due = CASE WHEN l.share IS NULL THEN l.due ELSE least(l.due, now) END
                WHERE l.ctid = ANY (ARRAY(
                    SELECT p.ctid FROM mainspring.live p
                    WHERE p.phase = -1 AND p.parked = of_key AND p.for_token = with_token AND p.line = this_line
                    ORDER BY p.priority DESC, p.place, p.id LIMIT room
                    FOR UPDATE SKIP LOCKED
                ))
                RETURNING l.id
            )
            SELECT array_agg(r.id) INTO ids FROM ready r;
            woken := woken || ids;
        END IF;
        this_line := mainspring.next_line(of_key, with_token, this_line);
    END LOOP;
    RETURN woken;
END
$$;
CREATE FUNCTION mainspring.with_attempt(attempts text, attempt text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN attempt IS NULL THEN attempts
                  WHEN attempts IS NULL THEN '[' || attempt || ']'
                  ELSE left(attempts, -1) || ',' || attempt || ']' END $$;
CREATE FUNCTION mainspring.write_audits(audits json) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO mainspring.audit (id, at, actor, action, target, before, after, request_id)
    SELECT id, at, actor, action, target, before, after, request_id
    FROM json_populate_recordset(NULL::mainspring.audit, audits)
    ON CONFLICT DO NOTHING;
END
$$;
CREATE FUNCTION mainspring.write_entries(writes json) RETURNS integer[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    one record;
    won integer[] := '{}';
BEGIN
    FOR one IN
        SELECT x.*
        FROM json_to_recordset(writes) AS x (
            entry mainspring.entry, seen bigint, remove boolean, audit json, n integer
        )
        ORDER BY (x.entry).kind, (x.entry).scope, (x.entry).key, x.n
    LOOP
        CONTINUE WHEN NOT mainspring.write_entry(one.entry, one.seen, one.remove);
        won := won || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN won;
END
$$;
CREATE TABLE mainspring.entry (
    kind text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    body text NOT NULL
);
CREATE FUNCTION mainspring.write_entry(w mainspring.entry, seen bigint, remove boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF remove THEN
        DELETE FROM mainspring.entry s
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND (seen IS NULL OR s.version = seen);
        RETURN FOUND OR seen IS NULL;
    END IF;
    IF seen = 0 THEN
        INSERT INTO mainspring.entry VALUES (w.kind, w.scope, w.key, 1, w.body) ON CONFLICT DO NOTHING;
    ELSIF seen IS NULL THEN
        INSERT INTO mainspring.entry AS s VALUES (w.kind, w.scope, w.key, 1, w.body)
        ON CONFLICT ON CONSTRAINT entry_pkey DO UPDATE SET version = s.version + 1, body = excluded.body;
    ELSE
        UPDATE mainspring.entry s SET version = s.version + 1, body = w.body
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND s.version = seen;
    END IF;
    RETURN FOUND;
END
$$;
CREATE FUNCTION mainspring.write_job(w mainspring.job, seen bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF seen IS NULL THEN
        INSERT INTO mainspring.job SELECT w.* ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO mainspring.incarnation (job_id, job) VALUES (w.id, w.name) ON CONFLICT DO NOTHING;
            RETURN true;
        END IF;
        RETURN false;
    END IF;
    UPDATE mainspring.job j SET
        version = seen + 1, origin = w.origin, declared = w.declared, overrides = w.overrides, release = w.release,
        next_run = w.next_run, last_tick = w.last_tick, anchor = w.anchor, paused = w.paused, paused_by = w.paused_by,
        pause_note = w.pause_note, resume = w.resume, cancelled = w.cancelled, sweep = w.sweep, created = w.created,
        updated = w.updated, due = w.due, template = w.template
    WHERE j.name = w.name AND j.id = w.id AND j.version = seen;
    RETURN FOUND;
END
$$;
CREATE FUNCTION mainspring.write_jobs(writes json) RETURNS json
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    now bigint := mainspring.now_micros();
    one record;
    answer json;
    answers json[] := '{}';
    special uuid[];
BEGIN
    FOR one IN
        SELECT x.job, x.seen, x.audit, x.keyless, x.others FROM json_to_recordset(writes) AS x (
            job mainspring.job, seen bigint, audit json, keyless mainspring.incoming[], others mainspring.incoming[]
        )
    LOOP
        IF NOT mainspring.write_job(one.job, one.seen) THEN
            answers := answers || 'null'::json;
            CONTINUE;
        END IF;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
        answer := mainspring.insert_tick_rows((one.job).id, one.keyless, one.others, now);
        answers := answers || answer;
        IF one.keyless IS NOT NULL OR one.others IS NOT NULL THEN
            special := special || mainspring.limited_rows(
                one.keyless, ARRAY(SELECT json_array_elements_text(nullif(answer->>'known', '')::json))::uuid[],
                one.others, nullif(answer->>'outcomes', '')::json
            );
        END IF;
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    RETURN array_to_json(answers);
END
$$;
CREATE FUNCTION mainspring.write_ticks(t mainspring.ticks, OUT won bigint[], OUT others json) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    now bigint := mainspring.now_micros();
    numbers bigint[];
    added uuid[];
    ended uuid[];
BEGIN
    PERFORM mainspring.ensure_incarnations(t.job_ids, t.jobs);
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
    ended := mainspring.remove_ended(added);
    IF ended IS NOT NULL OR coalesce(cardinality(added), 0) < cardinality(won) THEN
        others := mainspring.insert_refused_ticks(t, won, numbers, added, ended, now);
    END IF;
END
$$;
CREATE TABLE mainspring.audit (
    id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL COLLATE pg_catalog."C",
    before text,
    after text,
    request_id text
);
CREATE TABLE mainspring.definition (
    name text NOT NULL COLLATE pg_catalog."C",
    checksum text NOT NULL,
    release integer[] NOT NULL
);
CREATE TABLE mainspring.history_2026_11 (
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    created bigint CONSTRAINT history_created_not_null NOT NULL,
    due bigint CONSTRAINT history_due_not_null NOT NULL,
    claimed bigint,
    started bigint,
    finished bigint,
    tried bigint,
    tried_cpu double precision,
    cancel_requested bigint,
    number bigint,
    token bigint CONSTRAINT history_token_not_null NOT NULL,
    job_key integer CONSTRAINT history_job_key_not_null NOT NULL,
    failures integer CONSTRAINT history_failures_not_null NOT NULL,
    crashes integer CONSTRAINT history_crashes_not_null NOT NULL,
    alone boolean CONSTRAINT history_alone_not_null NOT NULL,
    staged boolean CONSTRAINT history_staged_not_null NOT NULL,
    todo boolean CONSTRAINT history_todo_not_null NOT NULL,
    keep boolean CONSTRAINT history_keep_not_null NOT NULL,
    stray boolean CONSTRAINT history_stray_not_null NOT NULL,
    state text CONSTRAINT history_state_not_null NOT NULL,
    tried_by text,
    unique_key text,
    overlap_key text,
    running_unique_key text,
    running_overlap_key text,
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text CONSTRAINT history_body_not_null NOT NULL,
    trigger text COLLATE pg_catalog."C"
);
CREATE TABLE mainspring.history_2026_12 (
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    created bigint CONSTRAINT history_created_not_null NOT NULL,
    due bigint CONSTRAINT history_due_not_null NOT NULL,
    claimed bigint,
    started bigint,
    finished bigint,
    tried bigint,
    tried_cpu double precision,
    cancel_requested bigint,
    number bigint,
    token bigint CONSTRAINT history_token_not_null NOT NULL,
    job_key integer CONSTRAINT history_job_key_not_null NOT NULL,
    failures integer CONSTRAINT history_failures_not_null NOT NULL,
    crashes integer CONSTRAINT history_crashes_not_null NOT NULL,
    alone boolean CONSTRAINT history_alone_not_null NOT NULL,
    staged boolean CONSTRAINT history_staged_not_null NOT NULL,
    todo boolean CONSTRAINT history_todo_not_null NOT NULL,
    keep boolean CONSTRAINT history_keep_not_null NOT NULL,
    stray boolean CONSTRAINT history_stray_not_null NOT NULL,
    state text CONSTRAINT history_state_not_null NOT NULL,
    tried_by text,
    unique_key text,
    overlap_key text,
    running_unique_key text,
    running_overlap_key text,
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text CONSTRAINT history_body_not_null NOT NULL,
    trigger text COLLATE pg_catalog."C"
);
CREATE TABLE mainspring.history_2027_01 (
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    created bigint CONSTRAINT history_created_not_null NOT NULL,
    due bigint CONSTRAINT history_due_not_null NOT NULL,
    claimed bigint,
    started bigint,
    finished bigint,
    tried bigint,
    tried_cpu double precision,
    cancel_requested bigint,
    number bigint,
    token bigint CONSTRAINT history_token_not_null NOT NULL,
    job_key integer CONSTRAINT history_job_key_not_null NOT NULL,
    failures integer CONSTRAINT history_failures_not_null NOT NULL,
    crashes integer CONSTRAINT history_crashes_not_null NOT NULL,
    alone boolean CONSTRAINT history_alone_not_null NOT NULL,
    staged boolean CONSTRAINT history_staged_not_null NOT NULL,
    todo boolean CONSTRAINT history_todo_not_null NOT NULL,
    keep boolean CONSTRAINT history_keep_not_null NOT NULL,
    stray boolean CONSTRAINT history_stray_not_null NOT NULL,
    state text CONSTRAINT history_state_not_null NOT NULL,
    tried_by text,
    unique_key text,
    overlap_key text,
    running_unique_key text,
    running_overlap_key text,
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text CONSTRAINT history_body_not_null NOT NULL,
    trigger text COLLATE pg_catalog."C"
);
CREATE TABLE mainspring.history_default (
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    created bigint CONSTRAINT history_created_not_null NOT NULL,
    due bigint CONSTRAINT history_due_not_null NOT NULL,
    claimed bigint,
    started bigint,
    finished bigint,
    tried bigint,
    tried_cpu double precision,
    cancel_requested bigint,
    number bigint,
    token bigint CONSTRAINT history_token_not_null NOT NULL,
    job_key integer CONSTRAINT history_job_key_not_null NOT NULL,
    failures integer CONSTRAINT history_failures_not_null NOT NULL,
    crashes integer CONSTRAINT history_crashes_not_null NOT NULL,
    alone boolean CONSTRAINT history_alone_not_null NOT NULL,
    staged boolean CONSTRAINT history_staged_not_null NOT NULL,
    todo boolean CONSTRAINT history_todo_not_null NOT NULL,
    keep boolean CONSTRAINT history_keep_not_null NOT NULL,
    stray boolean CONSTRAINT history_stray_not_null NOT NULL,
    state text CONSTRAINT history_state_not_null NOT NULL,
    tried_by text,
    unique_key text,
    overlap_key text,
    running_unique_key text,
    running_overlap_key text,
    cancel_reason text,
    tenant text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    foreign_trace text COLLATE pg_catalog."C",
    reason text,
    error text,
    attempts text,
    result text,
    counters text,
    metadata text,
    progress text,
    body text CONSTRAINT history_body_not_null NOT NULL,
    trigger text COLLATE pg_catalog."C"
);
CREATE TABLE mainspring.incarnation (
    key integer NOT NULL,
    job_id text NOT NULL COLLATE pg_catalog."C",
    job text NOT NULL COLLATE pg_catalog."C",
    last_number bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE mainspring.incarnation ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.incarnation_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW mainspring.job_executions AS
 SELECT id AS execution_id,
    job AS job_name,
    (body ->> 'handler'::text) AS handler,
    COALESCE((body ->> 'queue'::text), 'default'::text) AS queue,
    COALESCE(NULLIF((body ->> 'trace_id'::text), ''::text), replace((id)::text, '-'::text, ''::text)) AS trace_id,
    status,
    COALESCE((body ->> 'trigger'::text), 'enqueue'::text) AS trigger_type,
    COALESCE((body ->> 'triggered_by'::text), 'system'::text) AS triggered_by,
    COALESCE(number, mainspring.number_of(job_key, id)) AS number,
    (COALESCE((body ->> 'params'::text), '{}'::text))::jsonb AS params,
    tenant,
    parent_id,
    mainspring.as_time(((body ->> 'tick'::text))::bigint) AS scheduled_at,
    mainspring.as_time(((body ->> 'window_begin'::text))::bigint) AS window_begin,
    mainspring.as_time(((body ->> 'window_end'::text))::bigint) AS window_end,
    COALESCE(((body ->> 'priority'::text))::integer, 0) AS priority,
    GREATEST((failures + ((status <> 'failed'::text))::integer), 1) AS attempt,
    COALESCE(((((body ->> 'policy'::text))::json ->> 'max_attempts'::text))::integer, 10) AS max_attempts,
    reason,
    error AS error_message,
    (result)::jsonb AS result,
    (counters)::jsonb AS counters,
    (metadata)::jsonb AS metadata,
        CASE
            WHEN (tenant IS NULL) THEN mainspring.tenants_of(id, body, result, 'total'::text)
            ELSE NULL::bigint
        END AS tenants_total,
        CASE
            WHEN (tenant IS NULL) THEN mainspring.tenants_of(id, body, result, 'success'::text)
            ELSE NULL::bigint
        END AS tenants_success,
        CASE
            WHEN (tenant IS NULL) THEN mainspring.tenants_of(id, body, result, 'failed'::text)
            ELSE NULL::bigint
        END AS tenants_failed,
    mainspring.as_time(created) AS created_at,
    mainspring.as_time(started) AS started_at,
    mainspring.as_time(finished) AS finished_at,
    (((finished - started))::numeric / 1000.0) AS duration_ms,
    worker
   FROM ( SELECT l.id,
            l.job_key,
            i.job,
            l.started,
            l.tenant,
            l.parent_id,
            'pending'::text AS status,
            ((l.body || '}'::text))::json AS body,
            l.number,
            l.failures,
            l.reason,
            l.error,
            l.result,
            l.counters,
            l.metadata,
            l.created,
            NULL::bigint AS finished,
            (((l.attempts)::json -> '-1'::integer) ->> 'worker'::text) AS worker
           FROM (mainspring.live l
             JOIN mainspring.incarnation i ON ((i.key = l.job_key)))
          WHERE (l.phase < 2)
        UNION ALL
         SELECT l.id,
            l.job_key,
            i.job,
            l.started,
            l.tenant,
            l.parent_id,
                CASE l.phase
                    WHEN 2 THEN 'running'::text
                    ELSE 'waiting'::text
                END AS "case",
            ((l.body || '}'::text))::json AS "json",
            l.number,
            l.failures,
            l.reason,
            l.error,
            l.result,
            l.counters,
            l.metadata,
            l.created,
            NULL::bigint,
            COALESCE(l.owner, (((l.attempts)::json -> '-1'::integer) ->> 'worker'::text)) AS "coalesce"
           FROM (mainspring.live l
             JOIN mainspring.incarnation i ON ((i.key = l.job_key)))
          WHERE (l.phase >= 2)
        UNION ALL
         SELECT h.id,
            h.job_key,
            i.job,
            h.started,
            h.tenant,
            h.parent_id,
            h.state,
            ((h.body || '}'::text))::json AS "json",
            h.number,
            h.failures,
            h.reason,
            h.error,
            h.result,
            h.counters,
            h.metadata,
            h.created,
            h.finished,
            COALESCE(h.tried_by, (((h.attempts)::json -> '-1'::integer) ->> 'worker'::text)) AS "coalesce"
           FROM (mainspring.history h
             JOIN mainspring.incarnation i ON ((i.key = h.job_key)))
          WHERE (h.state = 'completed'::text)
        UNION ALL
         SELECT h.id,
            h.job_key,
            i.job,
            h.started,
            h.tenant,
            h.parent_id,
            h.state,
            ((h.body || '}'::text))::json AS "json",
            h.number,
            h.failures,
            h.reason,
            h.error,
            h.result,
            h.counters,
            h.metadata,
            h.created,
            h.finished,
            COALESCE(h.tried_by, (((h.attempts)::json -> '-1'::integer) ->> 'worker'::text)) AS "coalesce"
           FROM (mainspring.history h
             JOIN mainspring.incarnation i ON ((i.key = h.job_key)))
          WHERE (h.state <> 'completed'::text)) x;
CREATE TABLE mainspring.totals (
    job_key integer NOT NULL,
    completed bigint NOT NULL,
    partial bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    skipped bigint NOT NULL,
    duration_ms double precision NOT NULL,
    timed bigint NOT NULL,
    rescued bigint NOT NULL,
    last_id uuid,
    last_state text,
    last_started bigint,
    last_finished bigint,
    last_error text,
    last_failures integer NOT NULL
)
WITH (fillfactor='50');
CREATE VIEW mainspring.jobs AS
 SELECT j.name AS job_name,
    (((j.template)::json -> 'row'::text) ->> 'handler'::text) AS handler,
    (((j.template)::json -> 'row'::text) ->> 'queue'::text) AS queue,
    ((((j.template)::json -> 'row'::text) ->> 'priority'::text))::integer AS priority,
    ((j.declared)::jsonb -> 'trigger'::text) AS trigger,
    (((j.declared)::jsonb || (j.overrides)::jsonb) ->> 'description'::text) AS description,
    COALESCE(((((j.declared)::jsonb || (j.overrides)::jsonb) ->> 'enabled'::text))::boolean, true) AS enabled,
    COALESCE(((((j.declared)::jsonb || (j.overrides)::jsonb) ->> 'max_attempts'::text))::integer, 10) AS max_attempts,
    j.origin,
    j.release,
    j.version,
    (j.paused IS NOT NULL) AS paused,
    j.paused_by,
    (j.cancelled IS NOT NULL) AS cancelled,
    mainspring.as_time(
        CASE
            WHEN ((j.paused IS NULL) AND (j.due IS NOT NULL)) THEN j.next_run
            ELSE NULL::bigint
        END) AS next_run_at,
    mainspring.as_time(j.last_tick) AS last_tick_at,
    COALESCE(i.last_number, (0)::bigint) AS last_number,
    t.last_state AS last_status,
    mainspring.as_time(t.last_finished) AS last_finished_at,
    COALESCE(t.completed, (0)::bigint) AS completed,
    COALESCE(t.partial, (0)::bigint) AS partial,
    COALESCE(t.failed, (0)::bigint) AS failed,
    COALESCE(t.cancelled, (0)::bigint) AS cancelled_count,
    COALESCE(t.skipped, (0)::bigint) AS skipped,
    mainspring.as_time(j.created) AS created_at,
    mainspring.as_time(j.updated) AS updated_at
   FROM ((mainspring.job j
     LEFT JOIN mainspring.incarnation i ON ((i.job_id = j.id)))
     LEFT JOIN mainspring.totals t ON ((t.job_key = i.key)));
CREATE TABLE mainspring.lock (
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    token bigint NOT NULL,
    acquired bigint NOT NULL,
    expires bigint NOT NULL
)
WITH (fillfactor='50');
CREATE SEQUENCE mainspring.lock_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE VIEW mainspring.locks AS
 SELECT l.name,
    l.owner,
    l.token,
    mainspring.as_time(l.acquired) AS acquired_at,
    mainspring.as_time(l.expires) AS expires_at,
    'lock'::text AS kind,
    NULL::text AS job_name,
    NULL::uuid AS execution_id,
    NULL::text AS status
   FROM mainspring.lock l
  WHERE (l.expires > mainspring.now_micros())
UNION ALL
 SELECT k.name,
    l.owner,
    l.token,
    mainspring.as_time(COALESCE(l.started, l.created)) AS acquired_at,
    mainspring.as_time(l.lease) AS expires_at,
    k.kind,
    i.job AS job_name,
    l.id AS execution_id,
        CASE l.phase
            WHEN 2 THEN 'running'::text
            WHEN 3 THEN 'waiting'::text
            ELSE 'pending'::text
        END AS status
   FROM ((mainspring.live l
     CROSS JOIN LATERAL ( VALUES ('overlap'::text,l.overlap_key), ('unique'::text,l.unique_key)) k(kind, name))
     JOIN mainspring.incarnation i ON ((i.key = l.job_key)))
  WHERE (k.name IS NOT NULL);
CREATE TABLE mainspring.log (
    execution_id uuid NOT NULL,
    seq integer NOT NULL,
    at bigint NOT NULL,
    level text NOT NULL,
    message text NOT NULL,
    logger text DEFAULT ''::text NOT NULL
);
CREATE TABLE mainspring.meta (
    key text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE mainspring.numbers (
    job_key integer NOT NULL,
    span bigint NOT NULL,
    low uuid NOT NULL,
    high uuid NOT NULL,
    first bigint NOT NULL,
    ids uuid[] NOT NULL
);
ALTER TABLE ONLY mainspring.numbers ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE mainspring.purge (
    job_key integer NOT NULL
);
CREATE VIEW mainspring.tenant_executions AS
 SELECT execution_id,
    parent_id AS parent_execution_id,
    tenant,
    job_name,
    trace_id,
    status,
    trigger_type,
    attempt,
    max_attempts,
    error_message,
    started_at,
    finished_at,
    duration_ms,
    window_begin,
    window_end,
    worker
   FROM mainspring.job_executions
  WHERE ((tenant IS NOT NULL) AND (parent_id IS NOT NULL));
CREATE TABLE mainspring.trigger_totals (
    job_key integer NOT NULL,
    trigger text NOT NULL COLLATE pg_catalog."C",
    completed bigint NOT NULL,
    partial bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    skipped bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE mainspring.worker (
    id text NOT NULL COLLATE pg_catalog."C",
    seen bigint NOT NULL,
    info text NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_2026_11 FOR VALUES FROM ('01a19467-e800-0000-0000-000000000000') TO ('01a22ee6-b000-0000-0000-000000000000');
ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_2026_12 FOR VALUES FROM ('01a22ee6-b000-0000-0000-000000000000') TO ('01a2ce8b-d400-0000-0000-000000000000');
ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_2027_01 FOR VALUES FROM ('01a2ce8b-d400-0000-0000-000000000000') TO ('01a36e30-f800-0000-0000-000000000000');
ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_default DEFAULT;
INSERT INTO mainspring.audit VALUES ('01a1ec25-7c1f-720c-af9e-c0f1dc419bfb', 1794963242015128, 'system', 'trigger', 'job:ok', NULL, '01a1ec25-7c1f-720c-bd2b-50f883941ad8', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7c63-770a-8574-3e291c5fcfd8', 1794963242083440, 'system', 'trigger', 'job:some', NULL, '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d30-7f2f-802d-0a95484a2f6c', 1794963242288949, 'ann', 'cancel', 'execution:01a1ec25-7d2a-79ce-a374-fb5222cc4730', 'pending', '{"reason":"not needed"}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d38-7a49-83c2-eeab9a9a0804', 1794963242296643, 'ann', 'pause', 'job:paused', '{"next_run":"2026-11-19T00:54:01.565256Z"}', '{"paused":"2026-11-18T00:54:02.296643Z","pause_note":"audit"}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d49-7516-99f3-bb3a6ad86faf', 1794963242313318, 'bob', 'update', 'job:plain', '{}', '{"overrides":{"queue":"slow"}}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d50-7414-825b-2969507eeaaa', 1794963242320255, 'ann', 'set_calendar', 'calendar:holidays', NULL, '{"entries":1,"first":["2026-12-25"],"origin":"operator"}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d55-7831-976a-cd96e8cdbb74', 1794963242325512, 'ann', 'create', 'token:97c69ab62cd61976', NULL, '{"name":"ci","role":"viewer"}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d56-7431-80dd-ed34de3510c8', 1794963242326262, 'ann', 'create_webhook', 'webhook:wh-b2cd423eaaa0', NULL, '{"url":"https://example.com/...","events":["execution.cancelled"],"format":"standard","enabled":true,"secrets":1}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d60-7e51-be78-93f10e977327', 1794963242336895, 'ann', 'create', 'template:nightly', NULL, '{"handler":"plain","queue":"slow"}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d63-75f7-8aa9-18dbcafc4eed', 1794963242339373, 'ann', 'set', 'hook:stripe', NULL, '{"job":"hooked","style":"standard","enabled":true,"secrets":1}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-7d64-784d-bb8c-3c1bddf489af', 1794963242340519, 'ann', 'backfill', 'job:ok', NULL, '01a1ec25-7d64-784d-9dfb-c51e01f38273', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-816f-7449-bb46-274c2b986878', 1794963243375268, 'loopback', 'trigger', 'job:plain', NULL, '01a1ec25-8162-87c9-be45-0e5a5dc679e7', 'f1b736217db846848f1eedac8a559193');
INSERT INTO mainspring.audit VALUES ('01a1ec25-8186-78f9-8da6-ff84ec970fd6', 1794963243398561, 'hook:stripe', 'trigger', 'job:hooked', NULL, '01a1ec25-8183-8f18-9187-db94ef898284', '4961bacb5f884db1a2bca004b803c2ee');
INSERT INTO mainspring.audit VALUES ('01a1ec25-8aa5-77d2-83ab-55e2c6de0337', 1794963245733489, 'root', 'import', 'import:01a1ec25-8aa5-77d2-b17e-477daa9f817f', NULL, '{"source":"cron-rows /app/tests/upgrades/dumps/postgres.manifest.rows.json","create":0,"update":1,"review":0}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-8aab-7a2d-a30a-c263953f8256', 1794963245739636, 'root', 'update', 'job:imported', '{}', '{"next_run":"2026-11-18T04:30:00Z","overrides":{"trigger":{"kind":"every","seconds":86400,"start":"1970-01-01T04:30:00Z"}}}', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-8c96-7014-9809-46b372b43f5d', 1794963246230005, 'system', 'trigger', 'job:each', NULL, '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', NULL);
INSERT INTO mainspring.audit VALUES ('01a1ec25-8cad-7f70-989f-8ffd7763ba52', 1794963246253965, 'ann', 'backfill', 'job:filled', NULL, '01a1ec25-8cad-7f70-9af2-de8d804fd162', NULL);
INSERT INTO mainspring.definition VALUES ('backlog', '338f4b8f19fd69c9', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('claim_in_order', '8be7aa8443a07ff0', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('claim_lane', '477082c5a782c130', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('claim_onward', '5ea9b9fafa5d95b8', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('claim_staged', 'dea43c91a4ec1169', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('exchange', 'b50d8b9820ce5012', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('is_even', 'c50ecb1a75d8ecb7', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('next_token', '55b0d37b357f821b', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('other_lanes', '9631f6ac830e7467', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('promote', 'a583c930b5d77a9b', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('ready_lanes', '0bcc1fd045ed393f', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('remember', '408bbcb10a7b21c7', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('stopped_jobs', '1fa2ad3162ddc5ed', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('trade', '42dbaa4eaa15e822', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('turns', 'e5aebb95cfd428f2', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('enqueue', 'b21a0a5db1873e50', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('enqueueable', '9b99cf92300ed147', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('filled', '9045ff1ced152f12', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('merged', '19d3d5602a114f1d', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('row_of', 'd200892d575fa691', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('trace_of', '93ec13fa5cd71bfe', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('ensure_incarnations', 'e6ac71094eb32091', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('enter_limited', 'b5fa9061b5bd005c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('incoming', 'aa92f6b271d19175', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_each', '0745e26d4d179759', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_finished', '1b32690b73bd59de', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_fresh', '23f0e59555389c79', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_keyless', '7e3c0924d404f612', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_live', '7e2f9846d4ee7da9', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_missed', '4eeae1dcd6b7d138', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_one', 'b2eacaf128c4138c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_rows', 'a158acdf803b35b0', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_single', '31b546efff17bc29', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('keys_of', '45d98ab6265eed43', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('limited_rows', '4f0b14be89066e29', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('remove_ended', '75fd4ed5ebcb22d4', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('restore', '30eca482fd875fd3', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('delete_job', '609d3151f2804ee1', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('due_jobs', 'd6b89089e5c7c94e', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_refused_ticks', 'd3571a949a3e3acd', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('insert_tick_rows', '0a989b9fb031d316', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('list_job', '2d3ae6b1bb09bab4', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('listed', 'a7aba72c7867a118', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('purge_some', 'a9256df960a8f04c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('unlist_job', '397f3a8f661ef8b0', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_job', '9ac3a26d10900293', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_jobs', 'bbf8f0a06f01eb94', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_ticks', '230b27777e02a459', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('claim_limited', '5692e9fd5548aaa0', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('first_look', '572b7531fe8c096b', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('front', 'f4b7ca00e125c13c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('give_tags', '0a00b4b59969bedc', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('hold_keys', '221e913ef0c9fa77', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('is_awaited', 'ab0fdeaf369882e5', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('judge', 'b37f766e13421492', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('keys_in', 'c63963dadf95879a', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('leave', '4824c814f3a993c7', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('level_by', 'cbd7fad7d41f94ab', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('limited_turns', 'cb91d4338d3c3d9b', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('lock_front', 'e0fff8901c98f471', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('look', 'd82da53cce76ab89', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('next_line', 'fdf17d3e2c1b9664', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('next_look', '6739fdd33c2f53e8', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('next_token_look', '966f1d63a57c6f24', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('park', '4801ad1cc14200e8', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('refilled', '67ca1e259e1ef4c5', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('tokens_in', 'b28b7025e1012eb5', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('wake', '69b5313126ab0ceb', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('drop_empty_partitions', '2ae4396eafa2dd20', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('keep_partitions', '0c8b08559b1365ad', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('make_partition', '1c18ade66ba84cb4', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('month_bounds', 'd178c8b832285a32', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('as_claimed', 'deb3e14bafc90b53', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('as_json', '657cbac7b231a6e3', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('attempts_of', '09b4e5d79f118f0a', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('field', 'c1a6b6e54f966ea3', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('number_of', '01e7b008202a8109', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('rare_fields', 'd08f0e452599afcc', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('rest_of', '611bb5ef07b5e193', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('tenants_of', 'd92d9b4ad6a721f0', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('with_attempt', 'd98ba5306e8684ca', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_audits', 'e93bc3bf96321037', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_entries', 'a3a05534e5516ae2', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('write_entry', 'e9e5d62c4bb008b9', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('cancels', '0b3bde25e2c966f7', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('delete_finished', '218a9488fc7bf41c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('heartbeat', '140beac85726eee2', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('report', '25be03fabe48c237', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('request_cancel', 'f5a3d03bcdb84b0f', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('todo_done', 'bff77914f631abe6', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('settle', '870cb357fc415eec', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('settle_completed', '8281c1f50eac96ba', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('settle_final', 'b7e7af71316f39c4', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('settle_live', 'c833ca8c6280798d', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('unblock', '62c6b1151d254e82', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('fold', 'a8478e0d9e575298', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('fold_triggers', '7079c7789dbf7b12', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('give_numbers', '09dae3f174a086b7', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('prune_numbers', 'e69459e2008c5e4c', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('as_time', '9f7c23e289ce6daf', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('id_at', '900796cf01abb793', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('in_lane', '682bd3af1035af42', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('new_id', '07a1fdcac46597e4', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('now_micros', '3a8e6fc05721e989', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('phase_of', '79ae7e38f125b0d6', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('span_of', 'ac1cc6bff6ee114d', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('trigger_of', '3b71d27f655928ae', '{0,1,0}');
INSERT INTO mainspring.definition VALUES ('views', 'fa64a0de0e6e3039', '{0,1,0}');
INSERT INTO mainspring.delta VALUES (21, 1, 0, 0, 0, 0, 5.694, 1, 0, '01a1ec25-8cf4-705e-869a-05936c8e02ab', 'completed', 1794963246335629, 1794963246341323, NULL, 0, '{01a1ec25-8cf4-705e-869a-05936c8e02ab}', 0, NULL);
INSERT INTO mainspring.delta VALUES (21, 1, 0, 0, 0, 0, 1.586, 1, 0, '01a1ec25-8d0b-7db2-b9fc-6d535e821325', 'completed', 1794963246349905, 1794963246351491, NULL, 0, '{01a1ec25-8d0b-7db2-b9fc-6d535e821325}', 0, NULL);
INSERT INTO mainspring.delta VALUES (21, 1, 0, 0, 0, 0, 9.659, 1, 0, '01a1ec25-8d12-7ee5-8c00-6181cb380b16', 'completed', 1794963246359759, 1794963246369418, NULL, 0, '{01a1ec25-8d12-7ee5-8c00-6181cb380b16}', 0, NULL);
INSERT INTO mainspring.entry VALUES ('join', '', 'ok/after_ok', 1, '{}');
INSERT INTO mainspring.entry VALUES ('tenants', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', '0000005094168008-01a1ec25-7a89-72b0-97e8-87e41445d5a3-0000', 1, '["a","b"]');
INSERT INTO mainspring.entry VALUES ('tenants', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', 'list', 1, '{"by":"0000005094168008-01a1ec25-7a89-72b0-97e8-87e41445d5a3","total":2}');
INSERT INTO mainspring.entry VALUES ('window', 'ok', '01794956400000000-01794960000000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7c1f-720c-bd2b-50f883941ad8","finished":1794963242061098,"ids":["01a1ec25-7c1f-720c-bd2b-50f883941ad8"]}');
INSERT INTO mainspring.entry VALUES ('window', 'after_ok', '01794956400000000-01794960000000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7c1f-8dcd-b902-c0e6979ebd13","finished":1794963242197207,"ids":["01a1ec25-7c1f-8dcd-b902-c0e6979ebd13"]}');
INSERT INTO mainspring.entry VALUES ('tenants', 'closed', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', 1, '{"job_id":"01a1ec25-7a5d-7418-a554-ccf50bd1270e","at":1794963242294835}');
INSERT INTO mainspring.entry VALUES ('calendar', '', 'holidays', 1, '{"edited":[{"begin":"2026-12-25T00:00:00","end":"2026-12-26T00:00:00"}],"by":"ann","at":1794963242320255}');
INSERT INTO mainspring.entry VALUES ('token', '', '97c69ab62cd61976', 1, '{"id":"97c69ab62cd61976","name":"ci","role":"viewer","digest":"6331d92b09373ec7cbf8699f91f205edadf34e3646c1385c617cb460953f0f7d","created":1794963242325512,"created_by":"ann","expires":null,"last_used":null,"revoked":null,"revoked_by":null,"version":0}');
INSERT INTO mainspring.entry VALUES ('webhook', '', 'wh-b2cd423eaaa0', 1, '{"id":"wh-b2cd423eaaa0","url":"https://example.com/hook","events":["execution.cancelled"],"secrets":[{"text":"whsec_BSPA6ZxXOyeQygS0nXdbL4jtyUi2RtxLVEE71EovQ2o=","created":1794963242326262}],"created":1794963242326262,"created_by":"ann"}');
INSERT INTO mainspring.entry VALUES ('template', '', 'nightly', 1, '{"handler":"plain","fields":{"queue":"slow"},"created":1794963242336895,"updated":1794963242336895,"by":"ann"}');
INSERT INTO mainspring.entry VALUES ('hook', '', 'stripe', 1, '{"job":"hooked","style":"standard","secrets":[{"text":"whsec_Ch5dC+kh45gLdnXX48J5TzurMImKDRnX4t3WyDP+9sQ=","created":1794963242339373}],"passed":["payload"],"created":1794963242339373,"updated":1794963242339373,"by":"ann"}');
INSERT INTO mainspring.entry VALUES ('import', '01a1ec25-8aa5-77d2-b17e-477daa9f817f', 'imported', 2, '{"created":false,"after":"8b79dae310e97dad25e4bda3ca88d68b"}');
INSERT INTO mainspring.entry VALUES ('backfill', 'closed', '01a1ec25-7d64-784d-9dfb-c51e01f38273', 1, '{"id":"01a1ec25-7d64-784d-9dfb-c51e01f38273","job":"ok","job_id":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","begin":1794945600000000,"end":1794952800000000,"created":1794963242340519,"created_by":"ann","total":2,"state":"completed","position":2,"completed":2,"started":1794963242350377,"finished":1794963243492401,"moved":1794963243492401}');
INSERT INTO mainspring.entry VALUES ('unique', '', '200651a8b2d5912f692db89468a7d47d86a3ed6844f48f1b15f2be1d9c9a7e5e', 2, '{"id":"01a1ec25-7d87-7789-8645-3fa438677ac2","until":2110323242377002,"since":1794963242377002,"sure":true}');
INSERT INTO mainspring.entry VALUES ('window', 'ok', '01794945600000000-01794949200000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7d64-83d9-8e22-a6a77256385b","finished":1794963242369455,"ids":["01a1ec25-7d64-83d9-8e22-a6a77256385b"]}');
INSERT INTO mainspring.entry VALUES ('idempotency', '', '598dc67b0b87822625a0ab6c4c5e10ca6935e3ce76684dfdc0154fa381172168', 2, '{"request":"727cb93dac933ee428975d47a99d1f857dab4af72c92cf1dbdd4cdca23f976b8","at":1794963243362761,"since":1794963243362761,"answer":{"status":202,"body":"{\"id\":\"plain\",\"status\":\"running\",\"current_retry_count\":0,\"execution_id\":\"01a1ec25-8162-87c9-be45-0e5a5dc679e7\",\"execution\":{\"id\":\"01a1ec25-8162-87c9-be45-0e5a5dc679e7\",\"job\":\"plain\",\"job_id\":\"plain\",\"handler\":\"plain\",\"queue\":\"slow\",\"status\":\"pending\",\"reason\":null,\"trigger\":\"api\",\"triggered_by\":\"loopback\",\"trace_id\":\"01a1ec25816287c9be450e5a5dc679e7\",\"execution_number\":null,\"params\":{},\"window\":null,\"tenant\":null,\"share\":null,\"waits_for\":null,\"parent_id\":null,\"retry_of\":null,\"flow_id\":\"01a1ec25-8162-87c9-be45-0e5a5dc679e7\",\"priority\":0,\"attempt\":1,\"retry_attempt\":0,\"max_attempts\":10,\"worker\":null,\"created_at\":\"2026-11-18T00:54:03.375268Z\",\"start_at\":\"2026-11-18T00:54:03.375268Z\",\"scheduled_at\":null,\"started_at\":null,\"finished_at\":null,\"completed_at\":null,\"cancel_requested_at\":null,\"timeout_at\":null,\"run_timeout_at\":null,\"duration_ms\":null,\"error_message\":null,\"stack_trace\":null,\"cpu_time_ms\":null,\"memory_peak_mb\":null,\"progress\":null,\"logs_dropped\":0,\"counters\":{},\"result\":null,\"metadata\":{},\"attempts\":[]}}","headers":{"X-Execution-Id":"01a1ec25-8162-87c9-be45-0e5a5dc679e7"}}}');
INSERT INTO mainspring.entry VALUES ('delivery', '', 'af76f5a7cb7d05e26f11bb7603eb1c027cfa0ed1799a180a1cc98ae6a75d9a0f', 2, '{"request":"hook","at":1794963243395039,"since":1794963243395039,"answer":{"status":202,"body":"{\"execution_id\":\"01a1ec25-8183-8f18-9187-db94ef898284\",\"status\":\"pending\"}"}}');
INSERT INTO mainspring.entry VALUES ('logins', '', '180', 1, '{"9af2289436f303e0166030a21e525d26":[1794963243402975]}');
INSERT INTO mainspring.entry VALUES ('revision', 'moved', '01794963246129812', 1, '{"trigger":{"kind":"every","seconds":7200},"tz":"UTC","window":"previous_hour","anchor":1794963241565256,"since":1794963241565256}');
INSERT INTO mainspring.entry VALUES ('window', 'after_ok', '01794945600000000-01794949200000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7d64-8607-a4e5-dc8a588f51e9","finished":1794963243364468,"ids":["01a1ec25-7d64-8607-a4e5-dc8a588f51e9"]}');
INSERT INTO mainspring.entry VALUES ('window', 'ok', '01794949200000000-01794952800000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7d64-8ac3-ac5d-becdb74a760c","finished":1794963243417053,"ids":["01a1ec25-7d64-8ac3-ac5d-becdb74a760c"]}');
INSERT INTO mainspring.entry VALUES ('window', 'after_ok', '01794949200000000-01794952800000000', 1, '{"state":"done","last_state":"completed","execution_id":"01a1ec25-7d64-8911-8027-88585add7b3f","finished":1794963243489067,"ids":["01a1ec25-7d64-8911-8027-88585add7b3f"]}');
INSERT INTO mainspring.entry VALUES ('import', '', '01a1ec25-8aa5-77d2-b17e-477daa9f817f', 1, '{"at":1794963245733489,"by":"root","source":"cron-rows /app/tests/upgrades/dumps/postgres.manifest.rows.json"}');
INSERT INTO mainspring.entry VALUES ('tenants', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', '0000007452329387-01a1ec25-8c38-7f95-985c-4acbcf865160-0000', 1, '["a","b","c"]');
INSERT INTO mainspring.entry VALUES ('tenants', 'open', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', 1, '{"job_id":"01a1ec25-7a5d-7418-bb16-ce9ff39dfddb","at":1794963246266495}');
INSERT INTO mainspring.entry VALUES ('tenants', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', 'list', 1, '{"by":"0000007452329387-01a1ec25-8c38-7f95-985c-4acbcf865160","total":3}');
INSERT INTO mainspring.entry VALUES ('backfill_plan', '01a1ec25-8cad-7f70-9af2-de8d804fd162', '000000', 1, '[[1794945600000000,1794949200000000],[1794949200000000,1794952800000000]]');
INSERT INTO mainspring.entry VALUES ('backfill', 'open', '01a1ec25-8cad-7f70-9af2-de8d804fd162', 3, '{"id":"01a1ec25-8cad-7f70-9af2-de8d804fd162","job":"filled","job_id":"01a1ec25-7a5d-7418-8c0e-78499c11519b","begin":1794945600000000,"end":1794952800000000,"created":1794963246253965,"created_by":"ann","total":2,"state":"running","position":1,"in_flight":[0],"started":1794963246290859,"moved":1794963246290859}');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c56-7814-8baf-601da96e91fb', 1794963242070505, 1794963242070505, 1794963242077987, 1794963242077987, 1794963242089410, NULL, NULL, NULL, NULL, 5094168007, 23, 0, 0, false, false, false, true, false, 'skipped', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'nothing to do', NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242088799,"ended":1794963242089410,"end":"skipped"}]', NULL, NULL, NULL, NULL, '{"job":"skips","job_id":"01a1ec25-7a5d-7418-8bf7-92a494076efb","handler":"skips","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","trace_id":"01a1ec257c5678148baf601da96e91fb"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c1f-720c-bd2b-50f883941ad8', 1794963242015128, 1794963242015128, 1794963242055296, 1794963242055296, 1794963242061098, NULL, NULL, NULL, NULL, 5094168006, 15, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, '01a1ec25-7a5d-7418-9c55-ccec37c812e5', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242060613,"ended":1794963242061098,"end":"completed"}]', '{"rows":3}', NULL, NULL, NULL, '{"job":"ok","job_id":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","handler":"ok","trigger":"manual","trace_id":"01a1ec257c1f720cbd2b50f883941ad8","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794956400000000,"window_end":1794960000000000', 'manual');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c6d-7f3b-908c-009f74593315', 1794963242093952, 1794963242093952, 1794963242105725, 1794963242105725, 1794963242197142, NULL, NULL, NULL, NULL, 5094168009, 21, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, NULL, NULL, NULL, NULL, 'acme', NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242196471,"ended":1794963242197142,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","trace_id":"01a1ec257c6d7f3b908c009f74593315","params":"{\"item\":1}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","tenant":"acme","priority":3,"share":"acme"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c43-77eb-9036-7193a31e8d68', 1794963242051495, 1794963242115725, 1794963242208662, 1794963242077987, 1794963242222594, NULL, NULL, NULL, NULL, 9389135306, 5, 2, 0, false, false, false, true, false, 'failed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'error', 'ValueError: order 4711 has no address', '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242088870,"ended":1794963242089503,"end":"failed","error":"ValueError: order 4711 has no address","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 43, in fails\n    raise ValueError(f\"order {order_id} has no address\")\nValueError: order 4711 has no address\n"},{"number":2,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242222041,"ended":1794963242222594,"end":"failed","error":"ValueError: order 4711 has no address","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 43, in fails\n    raise ValueError(f\"order {order_id} has no address\")\nValueError: order 4711 has no address\n"}]', NULL, NULL, NULL, NULL, '{"job":"fails","job_id":"01a1ec25-7a5d-7418-a283-bd960933b30f","handler":"fails","policy":"{\"max_attempts\":2,\"retry\":{\"initial\":0.01,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","trace_id":"01a1ec257c4377eb90367193a31e8d68","params":"{\"order_id\":4711}"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d2a-79ce-a374-fb5222cc4730', 1794963242282613, 1794966842283009, NULL, NULL, 1794963242288949, NULL, NULL, NULL, NULL, 0, 21, 0, 0, false, false, false, true, false, 'cancelled', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'not needed', NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","trace_id":"01a1ec257d2a79cea374fb5222cc4730","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c1f-8dcd-b902-c0e6979ebd13', 1794963242101941, 1794963242101941, 1794963242105725, 1794963242105725, 1794963242197207, NULL, NULL, NULL, NULL, 5094168009, 1, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, NULL, NULL, '01a1ec257c1f720cbd2b50f883941ad8', NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242196571,"ended":1794963242197207,"end":"completed"}]', NULL, NULL, '{"after":{"ok":"01a1ec25-7c1f-720c-bd2b-50f883941ad8"}}', NULL, '{"job":"after_ok","job_id":"01a1ec25-7a5d-7418-b791-c86e3c694642","handler":"after_ok","trigger":"dependency","trace_id":"01a1ec257c1f720cbd2b50f883941ad8","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794956400000000,"window_end":1794960000000000,"flow":"01a1ec25-7c1f-720c-bd2b-50f883941ad8"', 'dependency');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', 1794963242083440, 1794963242083440, 1794963242097198, 1794963242097198, 1794963242229156, NULL, NULL, NULL, NULL, 5094168008, 25, 0, 0, false, false, false, true, false, 'partial', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'children', '1 of 2 tenants did not complete', '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242099345,"ended":1794963242136194,"end":"fanned_out"}]', '{"total":2,"success":1,"failed":1}', '{"total":2,"success":1,"failed":1}', NULL, NULL, '{"job":"some","job_id":"01a1ec25-7a5d-7418-a554-ccf50bd1270e","handler":"some","trigger":"manual","trace_id":"01a1ec257c63770aaac4ff71e7c8cd1e","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}}"', 'manual');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d64-8ac3-ac5d-becdb74a760c', 1794963243393192, 1794963243393192, 1794963243411388, 1794963243411388, 1794963243417053, NULL, NULL, NULL, NULL, 5094168023, 15, 0, 0, false, false, false, true, false, 'completed', NULL, 'job:ok:2026-11-17T21:00:00Z/2026-11-17T22:00:00Z', NULL, NULL, NULL, NULL, NULL, '01a1ec25-7d64-784d-9dfb-c51e01f38273', NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963243416667,"ended":1794963243417053,"end":"completed"}]', '{"rows":3}', NULL, NULL, NULL, '{"job":"ok","job_id":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","handler":"ok","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec257d648ac3ac5dbecdb74a760c","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794949200000000,"window_end":1794952800000000,"parent_id":"01a1ec25-7d64-784d-9dfb-c51e01f38273"', 'backfill');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c62-8000-8005-7bd45c220a8e', 1794963242111332, 1794963242111332, 1794963242208662, 1794963242208662, 1794963242225380, NULL, NULL, NULL, NULL, 5094168010, 25, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, NULL, NULL, NULL, NULL, 'a', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', '01a1ec257c63770aaac4ff71e7c8cd1e', NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242222156,"ended":1794963242225380,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"some","job_id":"01a1ec25-7a5d-7418-a554-ccf50bd1270e","handler":"some","trigger":"manual","trace_id":"01a1ec257c63770aaac4ff71e7c8cd1e","policy":"{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"a","parent_id":"01a1ec25-7c63-770a-aac4-ff71e7c8cd1e","share":"a"', 'manual');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7c62-8000-8011-bd39718bb218', 1794963242111332, 1794963242111332, 1794963242208662, 1794963242208662, 1794963242225455, NULL, NULL, NULL, NULL, 5094168010, 25, 1, 0, false, false, false, true, false, 'failed', NULL, NULL, NULL, NULL, NULL, NULL, 'b', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', '01a1ec257c63770aaac4ff71e7c8cd1e', 'error', 'ValueError: tenant b fails', '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242222196,"ended":1794963242225455,"end":"failed","error":"ValueError: tenant b fails","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 52, in some\n    raise ValueError(\"tenant b fails\")\nValueError: tenant b fails\n"}]', NULL, NULL, NULL, NULL, '{"job":"some","job_id":"01a1ec25-7a5d-7418-a554-ccf50bd1270e","handler":"some","trigger":"manual","trace_id":"01a1ec257c63770aaac4ff71e7c8cd1e","policy":"{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"b","parent_id":"01a1ec25-7c63-770a-aac4-ff71e7c8cd1e","share":"b"', 'manual');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d87-7789-8645-3fa438677ac2', 1794963242375471, 1794963242375471, 1794963242387347, 1794963242387347, 1794963242387661, NULL, NULL, NULL, NULL, 5094168017, 21, 0, 0, false, false, false, true, false, 'completed', NULL, 'once', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242387347,"ended":1794963242387661,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec257d87778986453fa438677ac2","params":"{\"item\":2}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d64-83d9-8e22-a6a77256385b', 1794963242350377, 1794963242350377, 1794963242364059, 1794963242364059, 1794963242369455, NULL, NULL, NULL, NULL, 5094168015, 15, 0, 0, false, false, false, true, false, 'completed', NULL, 'job:ok:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z', NULL, NULL, NULL, NULL, NULL, '01a1ec25-7d64-784d-9dfb-c51e01f38273', NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963242369010,"ended":1794963242369455,"end":"completed"}]', '{"rows":3}', NULL, NULL, NULL, '{"job":"ok","job_id":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","handler":"ok","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec257d6483d98e22a6a77256385b","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794945600000000,"window_end":1794949200000000,"parent_id":"01a1ec25-7d64-784d-9dfb-c51e01f38273"', 'backfill');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-8162-87c9-be45-0e5a5dc679e7', 1794963243375268, 1794963243375268, 1794963243395334, 1794963243395334, 1794963243395550, NULL, NULL, NULL, NULL, 5094168019, 21, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963243395334,"ended":1794963243395550,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trigger":"api","triggered_by":"loopback","trace_id":"01a1ec25816287c9be450e5a5dc679e7","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', 'api');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-8183-8f18-9187-db94ef898284', 1794963243398561, 1794963243398561, 1794963243399774, 1794963243399774, 1794963243399873, NULL, NULL, NULL, NULL, 5094168021, 9, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963243399774,"ended":1794963243399873,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"hooked","job_id":"01a1ec25-7a5d-7418-adde-cb391b119f11","handler":"hooked","trigger":"api","triggered_by":"hook:stripe","trace_id":"01a1ec2581838f189187db94ef898284","params":"{\"payload\":{\"amount\":12}}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', 'api');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d64-8607-a4e5-dc8a588f51e9', 1794963242383089, 1794963242383089, 1794963243364092, 1794963243364092, 1794963243364468, NULL, NULL, NULL, NULL, 5094168018, 1, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, NULL, NULL, '01a1ec257d6483d98e22a6a77256385b', NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963243364092,"ended":1794963243364468,"end":"completed"}]', NULL, NULL, '{"after":{"ok":"01a1ec25-7d64-83d9-8e22-a6a77256385b"}}', NULL, '{"job":"after_ok","job_id":"01a1ec25-7a5d-7418-b791-c86e3c694642","handler":"after_ok","trigger":"dependency","triggered_by":"ann","trace_id":"01a1ec257d6483d98e22a6a77256385b","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794945600000000,"window_end":1794949200000000,"flow":"01a1ec25-7d64-83d9-8e22-a6a77256385b"', 'dependency');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-7d64-8911-8027-88585add7b3f', 1794963243475683, 1794963243475683, 1794963243482603, 1794963243482603, 1794963243489067, NULL, NULL, NULL, NULL, 5094168025, 1, 0, 0, false, false, false, true, false, 'completed', NULL, NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, '01a1ec25-7a5d-7418-b791-c86e3c694642', NULL, NULL, NULL, '01a1ec257d648ac3ac5dbecdb74a760c', NULL, NULL, '[{"number":1,"worker":"01a1ec25-7a89-72b0-97e8-87e41445d5a3","started":1794963243488912,"ended":1794963243489067,"end":"completed"}]', NULL, NULL, '{"after":{"ok":"01a1ec25-7d64-8ac3-ac5d-becdb74a760c"}}', NULL, '{"job":"after_ok","job_id":"01a1ec25-7a5d-7418-b791-c86e3c694642","handler":"after_ok","trigger":"dependency","triggered_by":"ann","trace_id":"01a1ec257d648ac3ac5dbecdb74a760c","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794949200000000,"window_end":1794952800000000,"flow":"01a1ec25-7d64-8ac3-ac5d-becdb74a760c"', 'dependency');
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-8cf4-705e-869a-05936c8e02ab', 1794963246324023, 1794963246324023, 1794963246335629, 1794963246335629, 1794963246341323, NULL, NULL, NULL, NULL, 7452329390, 21, 0, 0, false, false, false, true, false, 'completed', NULL, 'order-0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-8c38-7f95-985c-4acbcf865160","started":1794963246341210,"ended":1794963246341323,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec258cf4705e869a05936c8e02ab","params":"{\"item\":0}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-8d0b-7db2-b9fc-6d535e821325', 1794963246347856, 1794963246347856, 1794963246349905, 1794963246349905, 1794963246351491, NULL, NULL, NULL, NULL, 7452329392, 21, 0, 0, false, false, false, true, false, 'completed', NULL, 'order-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-8c38-7f95-985c-4acbcf865160","started":1794963246351382,"ended":1794963246351491,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec258d0b7db2b9fc6d535e821325","params":"{\"item\":1}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL);
INSERT INTO mainspring.history_2026_11 VALUES ('01a1ec25-8d12-7ee5-8c00-6181cb380b16', 1794963246354931, 1794963246354931, 1794963246359759, 1794963246359759, 1794963246369418, NULL, NULL, NULL, NULL, 7452329394, 21, 0, 0, false, false, false, true, false, 'completed', NULL, 'order-2', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-8c38-7f95-985c-4acbcf865160","started":1794963246369296,"ended":1794963246369418,"end":"completed"}]', NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec258d127ee58c006181cb380b16","params":"{\"item\":2}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (3, '01a1ec25-7a5d-7418-bb16-ce9ff39dfddb', 'each', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (7, '01a1ec25-7a5d-7418-8c0e-78499c11519b', 'filled', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (11, '01a1ec25-7a5d-7418-a100-0529e136f6e0', 'imported', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (13, '01a1ec25-7a5d-7418-9a4a-259b525aa6b2', 'moved', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (17, '01a1ec25-7a5d-7418-a9d7-750e448008b3', 'one_at_a_time', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (19, '01a1ec25-7a5d-7418-a1da-ceed1b04749b', 'paused', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (5, '01a1ec25-7a5d-7418-a283-bd960933b30f', 'fails', 1);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (23, '01a1ec25-7a5d-7418-8bf7-92a494076efb', 'skips', 1);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (25, '01a1ec25-7a5d-7418-a554-ccf50bd1270e', 'some', 3);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (27, '01a1ec25-7d57-7b70-8754-da0b533cab3e', 'mainspring.webhooks', 0);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (1, '01a1ec25-7a5d-7418-b791-c86e3c694642', 'after_ok', 3);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (9, '01a1ec25-7a5d-7418-adde-cb391b119f11', 'hooked', 1);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (15, '01a1ec25-7a5d-7418-9c55-ccec37c812e5', 'ok', 3);
INSERT INTO mainspring.incarnation OVERRIDING SYSTEM VALUE VALUES (21, '01a1ec25-7a5d-7418-9941-658d7b38af17', 'plain', 4);
INSERT INTO mainspring.job VALUES ('after_ok', '01a1ec25-7a5d-7418-b791-c86e3c694642', 1, 'code', '{"handler":"after_ok","max_attempts":3,"overlap":"skip","after":["ok"]}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"after_ok","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","overlap_key":"01a1ec25-7a5d-7418-b791-c86e3c694642","overlap_slots":1,"lanes":["{queue}/after_ok","{queue}/after_ok//fair"]},"stages":{"running_overlap_key":"01a1ec25-7a5d-7418-b791-c86e3c694642","running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_overlap_key":"01a1ec25-7a5d-7418-b791-c86e3c694642","running_unique_key":"{running}","staged":true},"search":"after_ok\u001fafter_ok\u001f"}');
INSERT INTO mainspring.job VALUES ('each', '01a1ec25-7a5d-7418-bb16-ce9ff39dfddb', 1, 'code', '{"handler":"each","tenants":true,"tenant_concurrency":2}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"each","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]},\"concurrency\":2}}","overlap_slots":1,"lanes":["{queue}/each","{queue}/each//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"each\u001feach\u001f"}');
INSERT INTO mainspring.job VALUES ('fails', '01a1ec25-7a5d-7418-a283-bd960933b30f', 1, 'code', '{"handler":"fails","max_attempts":2,"retry":{"initial":0.01,"multiplier":2.0,"max":null,"jitter":0.0,"delays":[]}}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"fails","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":2,\"retry\":{\"initial\":0.01,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"lanes":["{queue}/fails","{queue}/fails//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"fails\u001ffails\u001f"}');
INSERT INTO mainspring.job VALUES ('filled', '01a1ec25-7a5d-7418-8c0e-78499c11519b', 1, 'code', '{"handler":"filled","trigger":{"kind":"every","seconds":3600},"max_attempts":3,"overlap":"skip","window":"previous_hour"}', '{}', '41', 1794966841565256, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, 1794966841565256, '{"row":{"handler":"filled","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","overlap_key":"01a1ec25-7a5d-7418-8c0e-78499c11519b","overlap_slots":1,"lanes":["{queue}/filled","{queue}/filled//fair"]},"stages":{"running_overlap_key":"01a1ec25-7a5d-7418-8c0e-78499c11519b","running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_overlap_key":"01a1ec25-7a5d-7418-8c0e-78499c11519b","running_unique_key":"{running}","staged":true},"search":"filled\u001ffilled\u001f"}');
INSERT INTO mainspring.job VALUES ('hooked', '01a1ec25-7a5d-7418-adde-cb391b119f11', 1, 'code', '{"handler":"hooked"}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"hooked","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"lanes":["{queue}/hooked","{queue}/hooked//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"hooked\u001fhooked\u001f"}');
INSERT INTO mainspring.job VALUES ('imported', '01a1ec25-7a5d-7418-a100-0529e136f6e0', 2, 'code', '{"handler":"imported"}', '{"trigger":{"kind":"every","seconds":86400,"start":"1970-01-01T04:30:00Z"}}', '41', 1794976200000000, NULL, 1794963245739636, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963245739636, 1794976200000000, '{"row":{"handler":"imported","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"lanes":["{queue}/imported","{queue}/imported//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"imported\u001fimported\u001f"}');
INSERT INTO mainspring.job VALUES ('moved', '01a1ec25-7a5d-7418-9a4a-259b525aa6b2', 2, 'code', '{"handler":"moved","trigger":{"kind":"every","seconds":10800},"max_attempts":3,"overlap":"skip","window":"previous_hour"}', '{}', '41', 1794974046129812, NULL, 1794963246129812, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963246129812, 1794974046129812, '{"row":{"handler":"moved","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","overlap_key":"01a1ec25-7a5d-7418-9a4a-259b525aa6b2","overlap_slots":1,"lanes":["{queue}/moved","{queue}/moved//fair"]},"stages":{"running_overlap_key":"01a1ec25-7a5d-7418-9a4a-259b525aa6b2","running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_overlap_key":"01a1ec25-7a5d-7418-9a4a-259b525aa6b2","running_unique_key":"{running}","staged":true},"search":"moved\u001fmoved\u001f"}');
INSERT INTO mainspring.job VALUES ('one_at_a_time', '01a1ec25-7a5d-7418-a9d7-750e448008b3', 1, 'code', '{"handler":"one_at_a_time","limits":[{"key":"one","concurrency":1},{"key":"pace","rate":100.0,"burst":10}]}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"one_at_a_time","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"limits":[["one",",\"concurrency\":1}"],["pace",",\"rate\":100.0,\"burst\":10}"]],"lanes":["{queue}/one_at_a_time//limited","{queue}/one_at_a_time//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"one_at_a_time\u001fone_at_a_time\u001f"}');
INSERT INTO mainspring.job VALUES ('skips', '01a1ec25-7a5d-7418-8bf7-92a494076efb', 1, 'code', '{"handler":"skips"}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"skips","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"lanes":["{queue}/skips","{queue}/skips//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"skips\u001fskips\u001f"}');
INSERT INTO mainspring.job VALUES ('some', '01a1ec25-7a5d-7418-a554-ccf50bd1270e', 1, 'code', '{"handler":"some","tenants":true,"tenant_max_attempts":1}', '{}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, NULL, '{"row":{"handler":"some","queue":"default","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}}","overlap_slots":1,"lanes":["{queue}/some","{queue}/some//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"policy":"{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"some\u001fsome\u001f"}');
INSERT INTO mainspring.job VALUES ('ok', '01a1ec25-7a5d-7418-9c55-ccec37c812e5', 2, 'code', '{"handler":"ok","trigger":{"kind":"every","seconds":3600},"max_attempts":3,"overlap":"skip","window":"previous_hour","metadata":{"team":"billing"},"feeds":true}', '{}', '41', 1794966841565256, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963241565256, 1794966841565256, '{"row":{"handler":"ok","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","overlap_key":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","overlap_slots":1,"lanes":["{queue}/ok","{queue}/ok//fair"]},"stages":{"running_overlap_key":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_overlap_key":"01a1ec25-7a5d-7418-9c55-ccec37c812e5","running_unique_key":"{running}","staged":true},"search":"ok\u001fok\u001f"}');
INSERT INTO mainspring.job VALUES ('paused', '01a1ec25-7a5d-7418-a1da-ceed1b04749b', 2, 'code', '{"handler":"paused","trigger":{"kind":"every","seconds":86400},"max_attempts":3,"overlap":"skip"}', '{}', '41', 1795049641565256, NULL, 1794963241565256, 1794963242296643, 'ann', 'audit', NULL, NULL, false, 1794963241565256, 1794963242296643, NULL, '{"row":{"handler":"paused","queue":"default","priority":0,"params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","overlap_key":"01a1ec25-7a5d-7418-a1da-ceed1b04749b","overlap_slots":1,"lanes":["{queue}/paused","{queue}/paused//fair"]},"stages":{"running_overlap_key":"01a1ec25-7a5d-7418-a1da-ceed1b04749b","running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_overlap_key":"01a1ec25-7a5d-7418-a1da-ceed1b04749b","running_unique_key":"{running}","staged":true},"search":"paused\u001fpaused\u001f"}');
INSERT INTO mainspring.job VALUES ('plain', '01a1ec25-7a5d-7418-9941-658d7b38af17', 2, 'code', '{"handler":"plain"}', '{"queue":"slow"}', '41', NULL, NULL, 1794963241565256, NULL, NULL, NULL, NULL, NULL, false, 1794963241565256, 1794963242313318, NULL, '{"row":{"handler":"plain","queue":"slow","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","overlap_slots":1,"lanes":["{queue}/plain","{queue}/plain//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"plain\u001fplain\u001f"}');
INSERT INTO mainspring.job VALUES ('mainspring.webhooks', '01a1ec25-7d57-7b70-8754-da0b533cab3e', 1, 'api', '{"handler":"mainspring.webhooks","queue":"mainspring.webhooks","retry":{"initial":2.0,"multiplier":2.0,"max":null,"jitter":0.1,"delays":[5.0,300.0,1800.0,7200.0,18000.0,36000.0,50400.0,72000.0,86400.0]},"timeout":30.0,"description":"Sends webhooks: one execution for each event and endpoint. Its tenant is the endpoint.","trigger_role":"admin","limits":[{"key":"webhook:{tenant}","concurrency":4}]}', '{}', '41', NULL, NULL, 1794963242327715, NULL, NULL, NULL, NULL, NULL, false, 1794963242327715, 1794963242327715, NULL, '{"row":{"handler":"mainspring.webhooks","queue":"mainspring.webhooks","priority":0,"params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.1,\"delays\":[5.0,300.0,1800.0,7200.0,18000.0,36000.0,50400.0,72000.0,86400.0]},\"timeout\":30.0}","overlap_slots":1,"limits":[["webhook:{tenant}",",\"concurrency\":4}"]],"lanes":["{queue}/mainspring.webhooks//limited","{queue}/mainspring.webhooks//fair"]},"stages":{"running_unique_key":"{running}","staged":true},"tenant":{"share":"{tenant}"},"tenant_stages":{"running_unique_key":"{running}","staged":true},"search":"mainspring.webhooks\u001fmainspring.webhooks\u001fsends webhooks: one execution for each event and endpoint. its tenant is the endpoint."}');
INSERT INTO mainspring.job_list VALUES ('after_ok', 1, 'after_ok', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'after_okafter_ok');
INSERT INTO mainspring.job_list VALUES ('each', 3, 'each', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'eacheach');
INSERT INTO mainspring.job_list VALUES ('fails', 5, 'fails', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'failsfails');
INSERT INTO mainspring.job_list VALUES ('filled', 7, 'filled', 'default', 'code', false, false, true, 1794963241565256, 1794963241565256, 'filledfilled');
INSERT INTO mainspring.job_list VALUES ('hooked', 9, 'hooked', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'hookedhooked');
INSERT INTO mainspring.job_list VALUES ('ok', 15, 'ok', 'default', 'code', false, false, true, 1794963241565256, 1794963241565256, 'okok');
INSERT INTO mainspring.job_list VALUES ('one_at_a_time', 17, 'one_at_a_time', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'one_at_a_timeone_at_a_time');
INSERT INTO mainspring.job_list VALUES ('skips', 23, 'skips', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'skipsskips');
INSERT INTO mainspring.job_list VALUES ('some', 25, 'some', 'default', 'code', false, false, false, 1794963241565256, 1794963241565256, 'somesome');
INSERT INTO mainspring.job_list VALUES ('paused', 19, 'paused', 'default', 'code', true, false, false, 1794963241565256, 1794963242296643, 'pausedpaused');
INSERT INTO mainspring.job_list VALUES ('plain', 21, 'plain', 'slow', 'code', false, false, false, 1794963241565256, 1794963242313318, 'plainplain');
INSERT INTO mainspring.job_list VALUES ('mainspring.webhooks', 27, 'mainspring.webhooks', 'mainspring.webhooks', 'api', false, false, false, 1794963242327715, 1794963242327715, 'mainspring.webhooksmainspring.webhookssends webhooks: one execution for each event and endpoint. its tenant is the endpoint.');
INSERT INTO mainspring.job_list VALUES ('imported', 11, 'imported', 'default', 'code', false, false, true, 1794963241565256, 1794963245739636, 'importedimported');
INSERT INTO mainspring.job_list VALUES ('moved', 13, 'moved', 'default', 'code', false, false, true, 1794963241565256, 1794963246129812, 'movedmoved');
INSERT INTO mainspring.limit_state VALUES ('fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96', 2, NULL, NULL, NULL, NULL, 1794963251309923, NULL);
INSERT INTO mainspring.limit_state VALUES ('one', 1, NULL, NULL, NULL, NULL, 1794963251335629, NULL);
INSERT INTO mainspring.limit_state VALUES ('pace', 1, 9, 1794963246335629, 100, 10, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-8c96-7014-af7e-6f3fc12fdc96', 1794963246230005, 1794963246230005, NULL, 1794963246249464, 1794963246249464, NULL, NULL, 7452329387, 3, 0, 0, 0, 3, false, false, false, false, 'default/each', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"number":1,"worker":"01a1ec25-8c38-7f95-985c-4acbcf865160","started":1794963246261977,"ended":1794963246303655,"end":"fanned_out"}]', NULL, '{"total":3}', NULL, NULL, '{"job":"each","job_id":"01a1ec25-7a5d-7418-bb16-ce9ff39dfddb","handler":"each","trigger":"manual","trace_id":"01a1ec258c967014af7e6f3fc12fdc96","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]},\"concurrency\":2}}"', 'manual', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-8c95-8000-8024-77aadd0dd7cb', 1794963246280402, 1794963246280402, NULL, NULL, NULL, NULL, NULL, 0, 3, 0, 0, 0, -1, false, false, false, false, 'default/each//fair', NULL, NULL, NULL, NULL, NULL, NULL, 'c', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', '01a1ec258c967014af7e6f3fc12fdc96', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"each","job_id":"01a1ec25-7a5d-7418-bb16-ce9ff39dfddb","handler":"each","trigger":"manual","trace_id":"01a1ec258c967014af7e6f3fc12fdc96","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"c","parent_id":"01a1ec25-8c96-7014-af7e-6f3fc12fdc96","share":"c","limits":"[{\"key\":\"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96\",\"concurrency\":2}]"', 'manual', 'c', NULL, NULL, '[{"key":"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96","concurrency":2}]', 'fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96', false, '2 default/each//fair', 0);
INSERT INTO mainspring.live VALUES ('01a1ec25-8c95-8000-800b-e8d40065166d', 1794963246280402, 1794963246280402, 1794963257857238, 1794963246309923, 1794963246309923, NULL, NULL, 7452329389, 3, 0, 0, 0, 2, false, false, false, false, 'default/each//fair', '01a1ec25-8c38-7f95-985c-4acbcf865160', NULL, NULL, NULL, NULL, NULL, 'a', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', '01a1ec258c967014af7e6f3fc12fdc96', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"each","job_id":"01a1ec25-7a5d-7418-bb16-ce9ff39dfddb","handler":"each","trigger":"manual","trace_id":"01a1ec258c967014af7e6f3fc12fdc96","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"a","parent_id":"01a1ec25-8c96-7014-af7e-6f3fc12fdc96","share":"a","limits":"[{\"key\":\"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96\",\"concurrency\":2}]"', 'manual', 'a', NULL, NULL, '[{"key":"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96","concurrency":2}]', NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-8c95-8000-8012-e68663616d5f', 1794963246280402, 1794963246280402, 1794963257857238, 1794963246309923, 1794963246309923, NULL, NULL, 7452329389, 3, 0, 0, 0, 2, false, false, false, false, 'default/each//fair', '01a1ec25-8c38-7f95-985c-4acbcf865160', NULL, NULL, NULL, NULL, NULL, 'b', '01a1ec25-8c96-7014-af7e-6f3fc12fdc96', '01a1ec258c967014af7e6f3fc12fdc96', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"each","job_id":"01a1ec25-7a5d-7418-bb16-ce9ff39dfddb","handler":"each","trigger":"manual","trace_id":"01a1ec258c967014af7e6f3fc12fdc96","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"b","parent_id":"01a1ec25-8c96-7014-af7e-6f3fc12fdc96","share":"b","limits":"[{\"key\":\"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96\",\"concurrency\":2}]"', 'manual', 'b', NULL, NULL, '[{"key":"fan-out:01a1ec25-8c96-7014-af7e-6f3fc12fdc96","concurrency":2}]', NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-8cf0-737c-a6dc-4cb22e4d4ed9', 1794963246320218, 1794963246320218, NULL, NULL, NULL, NULL, NULL, 0, 17, 0, 0, 0, -1, false, false, false, false, 'default/one_at_a_time//limited', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"one_at_a_time","job_id":"01a1ec25-7a5d-7418-a9d7-750e448008b3","handler":"one_at_a_time","trace_id":"01a1ec258cf0737ca6dc4cb22e4d4ed9","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"', NULL, NULL, NULL, NULL, '[{"key":"one","concurrency":1},{"key":"pace","rate":100.0,"burst":10}]', 'one', false, '1 default/one_at_a_time//limited', 0);
INSERT INTO mainspring.live VALUES ('01a1ec25-8cf2-789b-9073-c60fcae6fd98', 1794963246322538, 1794963246322538, NULL, NULL, NULL, NULL, NULL, 0, 17, 0, 0, 0, -1, false, false, false, false, 'default/one_at_a_time//limited', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"one_at_a_time","job_id":"01a1ec25-7a5d-7418-a9d7-750e448008b3","handler":"one_at_a_time","trace_id":"01a1ec258cf2789b9073c60fcae6fd98","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"', NULL, NULL, NULL, NULL, '[{"key":"one","concurrency":1},{"key":"pace","rate":100.0,"burst":10}]', 'one', false, '1 default/one_at_a_time//limited', 0);
INSERT INTO mainspring.live VALUES ('01a1ec25-8cad-8677-a3f3-f188d2be456d', 1794963246290859, 1794963246290859, 1794963257857238, 1794963246309923, 1794963246309923, NULL, NULL, 7452329389, 7, 0, 0, 0, 2, false, false, false, false, 'default/filled', '01a1ec25-8c38-7f95-985c-4acbcf865160', 'job:filled:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z', NULL, NULL, NULL, NULL, NULL, '01a1ec25-8cad-7f70-9af2-de8d804fd162', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"filled","job_id":"01a1ec25-7a5d-7418-8c0e-78499c11519b","handler":"filled","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec258cad8677a3f3f188d2be456d","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794945600000000,"window_end":1794949200000000,"parent_id":"01a1ec25-8cad-7f70-9af2-de8d804fd162"', 'backfill', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-8cea-7153-8e10-cef82b2a16e9', 1794963246314083, 1794963246314083, 1794963257857238, 1794963246335629, 1794963246335629, NULL, NULL, 7452329390, 17, 0, 0, 0, 2, false, false, false, false, 'default/one_at_a_time//limited', '01a1ec25-8c38-7f95-985c-4acbcf865160', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"one_at_a_time","job_id":"01a1ec25-7a5d-7418-a9d7-750e448008b3","handler":"one_at_a_time","trace_id":"01a1ec258cea71538e10cef82b2a16e9","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"', NULL, NULL, NULL, NULL, '[{"key":"one","concurrency":1},{"key":"pace","rate":100.0,"burst":10}]', NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-9344-75c6-a532-f6902622d0a3', 1794963247940361, 1794963277939994, NULL, NULL, NULL, NULL, NULL, 0, 21, 0, 0, 0, 0, false, false, false, false, 'slow/plain', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec25934475c6a532f6902622d0a3","params":"{\"item\":10}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-9345-7a72-bb8a-f385c0fa8383', 1794963247941653, 1794963277941922, NULL, NULL, NULL, NULL, NULL, 0, 21, 0, 0, 0, 0, false, false, false, false, 'other/plain', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"other","trace_id":"01a1ec2593457a72bb8af385c0fa8383","params":"{\"item\":11}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mainspring.live VALUES ('01a1ec25-9346-78bc-bbbf-dbed6cc5b420', 1794963247942546, 1826499247943580, NULL, NULL, NULL, NULL, NULL, 0, 21, 0, 0, 0, 0, false, false, false, false, 'slow/plain', NULL, 'held', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"job":"plain","job_id":"01a1ec25-7a5d-7418-9941-658d7b38af17","handler":"plain","queue":"slow","trace_id":"01a1ec25934678bcbbbfdbed6cc5b420","params":"{\"item\":12}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mainspring.lock VALUES ('import', 'vm:30150', 1, 1794963242373158, 2110323242373158);
INSERT INTO mainspring.log VALUES ('01a1ec25-7c1f-720c-bd2b-50f883941ad8', 1, 1794963242060965, 'WARNING', 'a line of the log', 'mainspring.job');
INSERT INTO mainspring.log VALUES ('01a1ec25-7d64-83d9-8e22-a6a77256385b', 1, 1794963242369295, 'WARNING', 'a line of the log', 'mainspring.job');
INSERT INTO mainspring.log VALUES ('01a1ec25-7d64-8ac3-ac5d-becdb74a760c', 1, 1794963243416931, 'WARNING', 'a line of the log', 'mainspring.job');
INSERT INTO mainspring.meta VALUES ('schema', 2);
INSERT INTO mainspring.meta VALUES ('partitions', 498600);
INSERT INTO mainspring.numbers VALUES (1, 6847241, '01a1ec25-7c1f-8dcd-b902-c0e6979ebd13', '01a1ec25-7c1f-8dcd-b902-c0e6979ebd13', 1, '{01a1ec25-7c1f-8dcd-b902-c0e6979ebd13}');
INSERT INTO mainspring.numbers VALUES (5, 6847241, '01a1ec25-7c43-77eb-9036-7193a31e8d68', '01a1ec25-7c43-77eb-9036-7193a31e8d68', 1, '{01a1ec25-7c43-77eb-9036-7193a31e8d68}');
INSERT INTO mainspring.numbers VALUES (15, 6847241, '01a1ec25-7c1f-720c-bd2b-50f883941ad8', '01a1ec25-7c1f-720c-bd2b-50f883941ad8', 1, '{01a1ec25-7c1f-720c-bd2b-50f883941ad8}');
INSERT INTO mainspring.numbers VALUES (21, 6847241, '01a1ec25-7c6d-7f3b-908c-009f74593315', '01a1ec25-7d2a-79ce-a374-fb5222cc4730', 1, '{01a1ec25-7c6d-7f3b-908c-009f74593315,01a1ec25-7d2a-79ce-a374-fb5222cc4730}');
INSERT INTO mainspring.numbers VALUES (23, 6847241, '01a1ec25-7c56-7814-8baf-601da96e91fb', '01a1ec25-7c56-7814-8baf-601da96e91fb', 1, '{01a1ec25-7c56-7814-8baf-601da96e91fb}');
INSERT INTO mainspring.numbers VALUES (25, 6847241, '01a1ec25-7c62-8000-8005-7bd45c220a8e', '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', 1, '{01a1ec25-7c62-8000-8005-7bd45c220a8e,01a1ec25-7c62-8000-8011-bd39718bb218,01a1ec25-7c63-770a-aac4-ff71e7c8cd1e}');
INSERT INTO mainspring.numbers VALUES (15, 6847241, '01a1ec25-7d64-83d9-8e22-a6a77256385b', '01a1ec25-7d64-83d9-8e22-a6a77256385b', 2, '{01a1ec25-7d64-83d9-8e22-a6a77256385b}');
INSERT INTO mainspring.numbers VALUES (1, 6847241, '01a1ec25-7d64-8607-a4e5-dc8a588f51e9', '01a1ec25-7d64-8911-8027-88585add7b3f', 2, '{01a1ec25-7d64-8607-a4e5-dc8a588f51e9,01a1ec25-7d64-8911-8027-88585add7b3f}');
INSERT INTO mainspring.numbers VALUES (9, 6847241, '01a1ec25-8183-8f18-9187-db94ef898284', '01a1ec25-8183-8f18-9187-db94ef898284', 1, '{01a1ec25-8183-8f18-9187-db94ef898284}');
INSERT INTO mainspring.numbers VALUES (15, 6847241, '01a1ec25-7d64-8ac3-ac5d-becdb74a760c', '01a1ec25-7d64-8ac3-ac5d-becdb74a760c', 3, '{01a1ec25-7d64-8ac3-ac5d-becdb74a760c}');
INSERT INTO mainspring.numbers VALUES (21, 6847241, '01a1ec25-7d87-7789-8645-3fa438677ac2', '01a1ec25-8162-87c9-be45-0e5a5dc679e7', 3, '{01a1ec25-7d87-7789-8645-3fa438677ac2,01a1ec25-8162-87c9-be45-0e5a5dc679e7}');
INSERT INTO mainspring.totals VALUES (23, 0, 0, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO mainspring.totals VALUES (5, 0, 0, 1, 0, 0, 144.607, 1, 0, '01a1ec25-7c43-77eb-9036-7193a31e8d68', 'failed', 1794963242077987, 1794963242222594, 'ValueError: order 4711 has no address', 2);
INSERT INTO mainspring.totals VALUES (25, 1, 1, 1, 0, 0, 165.469, 3, 0, '01a1ec25-7c63-770a-aac4-ff71e7c8cd1e', 'partial', 1794963242097198, 1794963242229156, '1 of 2 tenants did not complete', 0);
INSERT INTO mainspring.totals VALUES (1, 3, 0, 0, 0, 0, 98.322, 3, 0, '01a1ec25-7d64-8911-8027-88585add7b3f', 'completed', 1794963243482603, 1794963243489067, NULL, 0);
INSERT INTO mainspring.totals VALUES (9, 1, 0, 0, 0, 0, 0.099, 1, 0, '01a1ec25-8183-8f18-9187-db94ef898284', 'completed', 1794963243399774, 1794963243399873, NULL, 0);
INSERT INTO mainspring.totals VALUES (15, 3, 0, 0, 0, 0, 16.863, 3, 0, '01a1ec25-7d64-8ac3-ac5d-becdb74a760c', 'completed', 1794963243411388, 1794963243417053, NULL, 0);
INSERT INTO mainspring.totals VALUES (21, 3, 0, 0, 1, 0, 91.947, 3, 0, '01a1ec25-8162-87c9-be45-0e5a5dc679e7', 'completed', 1794963243395334, 1794963243395550, NULL, 0);
INSERT INTO mainspring.trigger_totals VALUES (5, 'enqueue', 0, 0, 1, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (15, 'manual', 1, 0, 0, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (23, 'enqueue', 0, 0, 0, 0, 1);
INSERT INTO mainspring.trigger_totals VALUES (25, 'manual', 1, 1, 1, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (1, 'dependency', 3, 0, 0, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (9, 'api', 1, 0, 0, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (15, 'backfill', 2, 0, 0, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (21, 'api', 1, 0, 0, 0, 0);
INSERT INTO mainspring.trigger_totals VALUES (21, 'enqueue', 2, 0, 0, 1, 0);
INSERT INTO mainspring.worker VALUES ('01a1ec25-8c38-7f95-985c-4acbcf865160', 1794963247857238, '{"id":"01a1ec25-8c38-7f95-985c-4acbcf865160","host":"vm","pid":30150,"version":"0.1.0","roles":["scheduler","worker"],"queues":null,"handlers":["after_ok","each","fails","filled","hooked","imported","mainspring.webhooks","moved","ok","one_at_a_time","paused","plain","skips","some"],"declares":["ok","after_ok","fails","skips","some","paused","plain","hooked","imported","filled","moved","one_at_a_time","each"],"concurrency":8,"running":4,"lease":10.0,"started":1794963246136974,"seen":1794963246136974}');
SELECT pg_catalog.setval('mainspring.incarnation_key_seq', 28, true);
SELECT pg_catalog.setval('mainspring.lock_token', 1, true);
ALTER TABLE ONLY mainspring.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.definition
    ADD CONSTRAINT definition_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (kind, scope, key);
ALTER TABLE ONLY mainspring.history
    ADD CONSTRAINT history_id PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.history_2026_11
    ADD CONSTRAINT history_2026_11_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.history_2026_12
    ADD CONSTRAINT history_2026_12_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.history_2027_01
    ADD CONSTRAINT history_2027_01_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.history_default
    ADD CONSTRAINT history_default_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.incarnation
    ADD CONSTRAINT incarnation_job_id_key UNIQUE (job_id);
ALTER TABLE ONLY mainspring.incarnation
    ADD CONSTRAINT incarnation_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mainspring.job_list
    ADD CONSTRAINT job_list_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.limit_state
    ADD CONSTRAINT limit_state_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mainspring.live
    ADD CONSTRAINT live_id PRIMARY KEY (id) WITH (fillfactor='45');
ALTER TABLE ONLY mainspring.lock
    ADD CONSTRAINT lock_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (execution_id, seq);
ALTER TABLE ONLY mainspring.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY mainspring.purge
    ADD CONSTRAINT purge_pkey PRIMARY KEY (job_key);
ALTER TABLE ONLY mainspring.totals
    ADD CONSTRAINT totals_pkey PRIMARY KEY (job_key);
ALTER TABLE ONLY mainspring.trigger_totals
    ADD CONSTRAINT trigger_totals_pkey PRIMARY KEY (job_key, trigger);
ALTER TABLE ONLY mainspring.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);
CREATE INDEX audit_target ON mainspring.audit USING btree (target, id);
CREATE INDEX history_stray ON ONLY mainspring.history USING btree (created, id) WHERE stray;
CREATE INDEX history_2026_11_created_id_idx ON mainspring.history_2026_11 USING btree (created, id) WHERE stray;
CREATE INDEX history_trace ON ONLY mainspring.history USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX history_2026_11_foreign_trace_id_idx ON mainspring.history_2026_11 USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX history_todo ON ONLY mainspring.history USING btree (id) WHERE todo;
CREATE INDEX history_2026_11_id_idx ON mainspring.history_2026_11 USING btree (id) WHERE todo;
CREATE INDEX history_completed ON ONLY mainspring.history USING btree (job_key, id) WHERE (state = 'completed'::text);
CREATE INDEX history_2026_11_job_key_id_idx ON mainspring.history_2026_11 USING btree (job_key, id) WHERE (state = 'completed'::text);
CREATE INDEX history_other ON ONLY mainspring.history USING btree (job_key, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_11_job_key_id_idx1 ON mainspring.history_2026_11 USING btree (job_key, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_job_outcome ON ONLY mainspring.history USING btree (job_key, state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_11_job_key_state_id_idx ON mainspring.history_2026_11 USING btree (job_key, state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_job_trigger ON ONLY mainspring.history USING btree (job_key, trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2026_11_job_key_trigger_id_idx ON mainspring.history_2026_11 USING btree (job_key, trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_parent ON ONLY mainspring.history USING btree (parent_id, id, state) WHERE (parent_id IS NOT NULL);
CREATE INDEX history_2026_11_parent_id_id_state_idx ON mainspring.history_2026_11 USING btree (parent_id, id, state) WHERE (parent_id IS NOT NULL);
CREATE INDEX history_outcome ON ONLY mainspring.history USING btree (state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_11_state_id_idx ON mainspring.history_2026_11 USING btree (state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_tenant ON ONLY mainspring.history USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX history_2026_11_tenant_id_idx ON mainspring.history_2026_11 USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX history_started ON ONLY mainspring.history USING brin (to_timestamp(((started)::double precision / (1000000)::double precision))) WITH (pages_per_range='32', autosummarize='on');
CREATE INDEX history_2026_11_to_timestamp_idx ON mainspring.history_2026_11 USING brin (to_timestamp(((started)::double precision / (1000000)::double precision))) WITH (pages_per_range='32', autosummarize='on');
CREATE INDEX history_trigger ON ONLY mainspring.history USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2026_11_trigger_id_idx ON mainspring.history_2026_11 USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2026_12_created_id_idx ON mainspring.history_2026_12 USING btree (created, id) WHERE stray;
CREATE INDEX history_2026_12_foreign_trace_id_idx ON mainspring.history_2026_12 USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX history_2026_12_id_idx ON mainspring.history_2026_12 USING btree (id) WHERE todo;
CREATE INDEX history_2026_12_job_key_id_idx ON mainspring.history_2026_12 USING btree (job_key, id) WHERE (state = 'completed'::text);
CREATE INDEX history_2026_12_job_key_id_idx1 ON mainspring.history_2026_12 USING btree (job_key, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_12_job_key_state_id_idx ON mainspring.history_2026_12 USING btree (job_key, state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_12_job_key_trigger_id_idx ON mainspring.history_2026_12 USING btree (job_key, trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2026_12_parent_id_id_state_idx ON mainspring.history_2026_12 USING btree (parent_id, id, state) WHERE (parent_id IS NOT NULL);
CREATE INDEX history_2026_12_state_id_idx ON mainspring.history_2026_12 USING btree (state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2026_12_tenant_id_idx ON mainspring.history_2026_12 USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX history_2026_12_to_timestamp_idx ON mainspring.history_2026_12 USING brin (to_timestamp(((started)::double precision / (1000000)::double precision))) WITH (pages_per_range='32', autosummarize='on');
CREATE INDEX history_2026_12_trigger_id_idx ON mainspring.history_2026_12 USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2027_01_created_id_idx ON mainspring.history_2027_01 USING btree (created, id) WHERE stray;
CREATE INDEX history_2027_01_foreign_trace_id_idx ON mainspring.history_2027_01 USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX history_2027_01_id_idx ON mainspring.history_2027_01 USING btree (id) WHERE todo;
CREATE INDEX history_2027_01_job_key_id_idx ON mainspring.history_2027_01 USING btree (job_key, id) WHERE (state = 'completed'::text);
CREATE INDEX history_2027_01_job_key_id_idx1 ON mainspring.history_2027_01 USING btree (job_key, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2027_01_job_key_state_id_idx ON mainspring.history_2027_01 USING btree (job_key, state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2027_01_job_key_trigger_id_idx ON mainspring.history_2027_01 USING btree (job_key, trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_2027_01_parent_id_id_state_idx ON mainspring.history_2027_01 USING btree (parent_id, id, state) WHERE (parent_id IS NOT NULL);
CREATE INDEX history_2027_01_state_id_idx ON mainspring.history_2027_01 USING btree (state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_2027_01_tenant_id_idx ON mainspring.history_2027_01 USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX history_2027_01_to_timestamp_idx ON mainspring.history_2027_01 USING brin (to_timestamp(((started)::double precision / (1000000)::double precision))) WITH (pages_per_range='32', autosummarize='on');
CREATE INDEX history_2027_01_trigger_id_idx ON mainspring.history_2027_01 USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_default_created_id_idx ON mainspring.history_default USING btree (created, id) WHERE stray;
CREATE INDEX history_default_foreign_trace_id_idx ON mainspring.history_default USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX history_default_id_idx ON mainspring.history_default USING btree (id) WHERE todo;
CREATE INDEX history_default_job_key_id_idx ON mainspring.history_default USING btree (job_key, id) WHERE (state = 'completed'::text);
CREATE INDEX history_default_job_key_id_idx1 ON mainspring.history_default USING btree (job_key, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_default_job_key_state_id_idx ON mainspring.history_default USING btree (job_key, state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_default_job_key_trigger_id_idx ON mainspring.history_default USING btree (job_key, trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX history_default_parent_id_id_state_idx ON mainspring.history_default USING btree (parent_id, id, state) WHERE (parent_id IS NOT NULL);
CREATE INDEX history_default_state_id_idx ON mainspring.history_default USING btree (state, id) WHERE (state <> 'completed'::text);
CREATE INDEX history_default_tenant_id_idx ON mainspring.history_default USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX history_default_to_timestamp_idx ON mainspring.history_default USING brin (to_timestamp(((started)::double precision / (1000000)::double precision))) WITH (pages_per_range='32', autosummarize='on');
CREATE INDEX history_default_trigger_id_idx ON mainspring.history_default USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE INDEX incarnation_job ON mainspring.incarnation USING btree (job);
CREATE INDEX job_due ON mainspring.job USING btree (due, name) WHERE (due IS NOT NULL);
CREATE INDEX job_list_cancelled ON mainspring.job_list USING btree (name) WHERE cancelled;
CREATE INDEX job_list_created ON mainspring.job_list USING btree (created, name);
CREATE INDEX job_list_handler ON mainspring.job_list USING btree (handler, name);
CREATE INDEX job_list_handler_back ON mainspring.job_list USING btree (handler DESC, name);
CREATE INDEX job_list_key ON mainspring.job_list USING btree (job_key);
CREATE INDEX job_list_on_demand ON mainspring.job_list USING btree (name) WHERE (NOT planned);
CREATE INDEX job_list_origin ON mainspring.job_list USING btree (origin, name);
CREATE INDEX job_list_paused ON mainspring.job_list USING btree (name) WHERE paused;
CREATE INDEX job_list_queue ON mainspring.job_list USING btree (queue, name);
CREATE INDEX job_list_updated ON mainspring.job_list USING btree (updated, name);
CREATE INDEX job_sweep ON mainspring.job USING btree (name) WHERE sweep;
CREATE INDEX limit_look ON mainspring.limit_state USING btree (LEAST(slot_look, token_look)) WHERE ((slot_look IS NOT NULL) OR (token_look IS NOT NULL));
CREATE INDEX live_active ON mainspring.live USING btree (job_key, id) WHERE (phase >= 2);
CREATE INDEX live_begun ON mainspring.live USING btree (to_timestamp(((started)::double precision / (1000000)::double precision))) WHERE ((phase < 2) AND (started IS NOT NULL));
CREATE INDEX live_blocked_overlap ON mainspring.live USING btree (running_overlap_key, priority DESC, id) WHERE blocked;
CREATE INDEX live_blocked_unique ON mainspring.live USING btree (running_unique_key, priority DESC, id) WHERE blocked;
CREATE INDEX live_cancel ON mainspring.live USING btree (owner, id) WHERE (cancel_requested IS NOT NULL);
CREATE INDEX live_fair ON mainspring.live USING btree (lane, priority DESC, tag, id) WHERE ((phase = 1) AND (tag IS NOT NULL));
CREATE UNIQUE INDEX live_overlap ON mainspring.live USING btree (overlap_key) WHERE (overlap_key IS NOT NULL);
CREATE INDEX live_parent ON mainspring.live USING btree (parent_id, id) WHERE (parent_id IS NOT NULL);
CREATE INDEX live_parked ON mainspring.live USING btree (parked, for_token, line, priority DESC, place, id) WHERE (phase = '-1'::integer);
CREATE INDEX live_pending ON mainspring.live USING btree (job_key, id) WHERE (phase < 2);
CREATE INDEX live_place ON mainspring.live USING btree (parked, for_token, line, priority, share, place DESC) WHERE ((phase = '-1'::integer) AND (share IS NOT NULL));
CREATE INDEX live_ready ON mainspring.live USING btree (lane, priority DESC, id) WHERE (phase = 1);
CREATE INDEX live_scheduled ON mainspring.live USING btree (due) WHERE (phase = 0);
CREATE INDEX live_share ON mainspring.live USING btree (lane, priority, share, tag DESC) WHERE ((phase = 1) AND (tag IS NOT NULL));
CREATE INDEX live_stray ON mainspring.live USING btree (created, id) WHERE stray;
CREATE INDEX live_tenant ON mainspring.live USING btree (tenant, id) WHERE (tenant IS NOT NULL);
CREATE INDEX live_trace ON mainspring.live USING btree (foreign_trace, id) WHERE (foreign_trace IS NOT NULL);
CREATE INDEX live_trigger ON mainspring.live USING btree (trigger, id) WHERE (trigger IS NOT NULL);
CREATE UNIQUE INDEX live_unique ON mainspring.live USING btree (unique_key) WHERE (unique_key IS NOT NULL);
CREATE INDEX numbers_span ON mainspring.numbers USING btree (job_key, span);
CREATE INDEX totals_rare ON mainspring.totals USING btree (last_state, job_key) WHERE (last_state <> 'completed'::text);
ALTER INDEX mainspring.history_stray ATTACH PARTITION mainspring.history_2026_11_created_id_idx;
ALTER INDEX mainspring.history_trace ATTACH PARTITION mainspring.history_2026_11_foreign_trace_id_idx;
ALTER INDEX mainspring.history_todo ATTACH PARTITION mainspring.history_2026_11_id_idx;
ALTER INDEX mainspring.history_completed ATTACH PARTITION mainspring.history_2026_11_job_key_id_idx;
ALTER INDEX mainspring.history_other ATTACH PARTITION mainspring.history_2026_11_job_key_id_idx1;
ALTER INDEX mainspring.history_job_outcome ATTACH PARTITION mainspring.history_2026_11_job_key_state_id_idx;
ALTER INDEX mainspring.history_job_trigger ATTACH PARTITION mainspring.history_2026_11_job_key_trigger_id_idx;
ALTER INDEX mainspring.history_parent ATTACH PARTITION mainspring.history_2026_11_parent_id_id_state_idx;
ALTER INDEX mainspring.history_id ATTACH PARTITION mainspring.history_2026_11_pkey;
ALTER INDEX mainspring.history_outcome ATTACH PARTITION mainspring.history_2026_11_state_id_idx;
ALTER INDEX mainspring.history_tenant ATTACH PARTITION mainspring.history_2026_11_tenant_id_idx;
ALTER INDEX mainspring.history_started ATTACH PARTITION mainspring.history_2026_11_to_timestamp_idx;
ALTER INDEX mainspring.history_trigger ATTACH PARTITION mainspring.history_2026_11_trigger_id_idx;
ALTER INDEX mainspring.history_stray ATTACH PARTITION mainspring.history_2026_12_created_id_idx;
ALTER INDEX mainspring.history_trace ATTACH PARTITION mainspring.history_2026_12_foreign_trace_id_idx;
ALTER INDEX mainspring.history_todo ATTACH PARTITION mainspring.history_2026_12_id_idx;
ALTER INDEX mainspring.history_completed ATTACH PARTITION mainspring.history_2026_12_job_key_id_idx;
ALTER INDEX mainspring.history_other ATTACH PARTITION mainspring.history_2026_12_job_key_id_idx1;
ALTER INDEX mainspring.history_job_outcome ATTACH PARTITION mainspring.history_2026_12_job_key_state_id_idx;
ALTER INDEX mainspring.history_job_trigger ATTACH PARTITION mainspring.history_2026_12_job_key_trigger_id_idx;
ALTER INDEX mainspring.history_parent ATTACH PARTITION mainspring.history_2026_12_parent_id_id_state_idx;
ALTER INDEX mainspring.history_id ATTACH PARTITION mainspring.history_2026_12_pkey;
ALTER INDEX mainspring.history_outcome ATTACH PARTITION mainspring.history_2026_12_state_id_idx;
ALTER INDEX mainspring.history_tenant ATTACH PARTITION mainspring.history_2026_12_tenant_id_idx;
ALTER INDEX mainspring.history_started ATTACH PARTITION mainspring.history_2026_12_to_timestamp_idx;
ALTER INDEX mainspring.history_trigger ATTACH PARTITION mainspring.history_2026_12_trigger_id_idx;
ALTER INDEX mainspring.history_stray ATTACH PARTITION mainspring.history_2027_01_created_id_idx;
ALTER INDEX mainspring.history_trace ATTACH PARTITION mainspring.history_2027_01_foreign_trace_id_idx;
ALTER INDEX mainspring.history_todo ATTACH PARTITION mainspring.history_2027_01_id_idx;
ALTER INDEX mainspring.history_completed ATTACH PARTITION mainspring.history_2027_01_job_key_id_idx;
ALTER INDEX mainspring.history_other ATTACH PARTITION mainspring.history_2027_01_job_key_id_idx1;
ALTER INDEX mainspring.history_job_outcome ATTACH PARTITION mainspring.history_2027_01_job_key_state_id_idx;
ALTER INDEX mainspring.history_job_trigger ATTACH PARTITION mainspring.history_2027_01_job_key_trigger_id_idx;
ALTER INDEX mainspring.history_parent ATTACH PARTITION mainspring.history_2027_01_parent_id_id_state_idx;
ALTER INDEX mainspring.history_id ATTACH PARTITION mainspring.history_2027_01_pkey;
ALTER INDEX mainspring.history_outcome ATTACH PARTITION mainspring.history_2027_01_state_id_idx;
ALTER INDEX mainspring.history_tenant ATTACH PARTITION mainspring.history_2027_01_tenant_id_idx;
ALTER INDEX mainspring.history_started ATTACH PARTITION mainspring.history_2027_01_to_timestamp_idx;
ALTER INDEX mainspring.history_trigger ATTACH PARTITION mainspring.history_2027_01_trigger_id_idx;
ALTER INDEX mainspring.history_stray ATTACH PARTITION mainspring.history_default_created_id_idx;
ALTER INDEX mainspring.history_trace ATTACH PARTITION mainspring.history_default_foreign_trace_id_idx;
ALTER INDEX mainspring.history_todo ATTACH PARTITION mainspring.history_default_id_idx;
ALTER INDEX mainspring.history_completed ATTACH PARTITION mainspring.history_default_job_key_id_idx;
ALTER INDEX mainspring.history_other ATTACH PARTITION mainspring.history_default_job_key_id_idx1;
ALTER INDEX mainspring.history_job_outcome ATTACH PARTITION mainspring.history_default_job_key_state_id_idx;
ALTER INDEX mainspring.history_job_trigger ATTACH PARTITION mainspring.history_default_job_key_trigger_id_idx;
ALTER INDEX mainspring.history_parent ATTACH PARTITION mainspring.history_default_parent_id_id_state_idx;
ALTER INDEX mainspring.history_id ATTACH PARTITION mainspring.history_default_pkey;
ALTER INDEX mainspring.history_outcome ATTACH PARTITION mainspring.history_default_state_id_idx;
ALTER INDEX mainspring.history_tenant ATTACH PARTITION mainspring.history_default_tenant_id_idx;
ALTER INDEX mainspring.history_started ATTACH PARTITION mainspring.history_default_to_timestamp_idx;
ALTER INDEX mainspring.history_trigger ATTACH PARTITION mainspring.history_default_trigger_id_idx;
CREATE TRIGGER list_changed AFTER UPDATE OF template, origin, paused, cancelled, created, updated ON mainspring.job FOR EACH ROW WHEN (((old.updated <> new.updated) OR (old.template <> new.template) OR (old.origin <> new.origin) OR (old.created <> new.created) OR ((old.paused IS NULL) <> (new.paused IS NULL)) OR ((old.cancelled IS NULL) <> (new.cancelled IS NULL)))) EXECUTE FUNCTION mainspring.list_job();
CREATE TRIGGER list_gone AFTER DELETE ON mainspring.job FOR EACH ROW EXECUTE FUNCTION mainspring.unlist_job();
CREATE TRIGGER list_new AFTER INSERT ON mainspring.job FOR EACH ROW EXECUTE FUNCTION mainspring.list_job();
CREATE TRIGGER list_planned AFTER UPDATE OF due ON mainspring.job FOR EACH ROW WHEN (((old.due IS NULL) <> (new.due IS NULL))) EXECUTE FUNCTION mainspring.list_job();
