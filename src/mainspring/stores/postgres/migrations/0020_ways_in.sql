-- The other ways in: ticks, plain SQL, and copies of other stores.

-- `writes` are [{job, seen, audit, plain, others}, ...] in the order of names, no name twice. Returns one
-- {known, outcomes} for each write that won, null for the others.
CREATE OR REPLACE FUNCTION mainspring.write_jobs(writes json) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    one record;
    answer json;
    answers json[] := '{}';
    special uuid[];
BEGIN
    FOR one IN
        SELECT x.job, x.seen, x.audit, x.plain, x.others FROM json_to_recordset(writes) AS x (
            job mainspring.job, seen bigint, audit json, plain mainspring.incoming[], others mainspring.incoming[]
        )
    LOOP
        IF NOT mainspring.write_job(one.job, one.seen) THEN
            answers := answers || 'null'::json;
            CONTINUE;
        END IF;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
        answer := mainspring.add_ticks((one.job).id, one.plain, one.others, now);
        answers := answers || answer;
        IF one.plain IS NOT NULL OR one.others IS NOT NULL THEN
            special := special || mainspring.special(
                one.plain, ARRAY(SELECT json_array_elements_text(nullif(answer->>'known', '')::json))::uuid[],
                one.others, nullif(answer->>'outcomes', '')::json
            );
        END IF;
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter(special);
    END IF;
    RETURN array_to_json(answers);
END
$$;

-- The key of a limit with its places filled in for one request: see core.rules.limits.
CREATE FUNCTION mainspring.filled(key text, tenant text, job text, queue text, params json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place text;
    value text;
BEGIN
    FOR place IN SELECT DISTINCT m[1] FROM regexp_matches(key, '\{([^{}]*)\}', 'g') m LOOP
        value := CASE place WHEN 'tenant' THEN tenant WHEN 'job' THEN job WHEN 'queue' THEN queue
                            ELSE params->>regexp_replace(place, '^params\.', '') END;
        value := left(regexp_replace(coalesce(value, '-'), '[[:cntrl:]]', '?', 'g'), 200);
        key := replace(key, '{' || place || '}', value);
    END LOOP;
    RETURN left(key, 400);
END
$$;

-- A request as the row it asks for, with the rules the job has now.
CREATE OR REPLACE FUNCTION mainspring.requested(request json, now bigint) RETURNS mainspring.incoming LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT text[] := ARRAY['job', 'params', 'unique', 'start_at', 'priority', 'queue', 'tenant', 'share',
                                   'by', 'metadata', 'traceparent'];
    unknown text := (SELECT min(k) FROM json_object_keys(request) k WHERE k <> ALL (known));
    j mainspring.job;
    d json;
    r mainspring.incoming;
    trace text := substring(request->>'traceparent' FROM '^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}');
    params text;
    handler text;
    queue text;
BEGIN
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION '%: not a field of a request', unknown USING HINT = 'Known are ' || array_to_string(known, ', ');
    END IF;
    SELECT * INTO j FROM mainspring.job x WHERE x.name = request->>'job';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job: no job named %', coalesce(quote_literal(request->>'job'), 'null');
    ELSIF j.cancelled IS NOT NULL THEN
        RAISE EXCEPTION 'cannot enqueue job %: it is cancelled', quote_literal(j.name);
    ELSIF coalesce(json_typeof(request->'params'), 'object') <> 'object' THEN
        RAISE EXCEPTION 'params: a JSON object is needed, not %', json_typeof(request->'params');
    END IF;
    d := j.defaults::json;
    params := mainspring.merged(d->'params', request->'params');
    handler := d->>'handler';
    queue := coalesce(request->>'queue', d->>'queue');
    IF octet_length(params) > 262144 THEN
        RAISE EXCEPTION 'params: % bytes are more than the 262144 allowed', octet_length(params);
    ELSIF queue !~ '^[A-Za-z0-9_.:-]{1,100}$' THEN
        RAISE EXCEPTION 'queue: % is not a name', quote_literal(queue);
    END IF;
    r.id := mainspring.new_id(now);
    r.job := j.name;
    r.job_id := j.id;
    r.priority := coalesce((request->>'priority')::smallint, (d->>'priority')::integer);
    r.created := now;
    r.due := coalesce((extract(epoch FROM (request->>'start_at')::timestamptz) * 1000000)::bigint, now);
    r.tenant := request->>'tenant';
    r.metadata := request->'metadata';
    r.share := coalesce(request->>'share', r.tenant);
    r.weight := CASE WHEN r.share IS NULL THEN 1
                     ELSE coalesce((d->'weights'->>r.share)::integer, (d->'weights'->>'*')::integer, 1) END;
    IF json_array_length(d->'limits') > 0 THEN
        r.limits := (
            SELECT json_agg(json_strip_nulls(json_build_object(
                'key', mainspring.filled(l->>'key', r.tenant, j.name, queue, params::json), 'concurrency', l->'concurrency',
                'rate', l->'rate', 'burst', l->'burst'
            ))) FROM json_array_elements(d->'limits') l
        );
    END IF;
    r.lane := queue || '/' || handler || CASE WHEN r.share IS NOT NULL THEN '//fair'
                                              WHEN r.limits IS NOT NULL THEN '//limited' ELSE '' END;
    r.foreign_trace := nullif(trace, repeat('0', 32));
    r.unique_key := CASE json_typeof(request->'unique') WHEN 'object' THEN request->'unique'->>'enqueued'
                                                        ELSE request->>'unique' END;
    r.overlap_key := CASE WHEN d->>'overlap' = 'skip' OR d->>'overlap_limit' IS NOT NULL THEN j.id
                          WHEN d->>'overlap' IN ('queue', 'cancel_running') THEN j.id || ':next' END;
    r.slots := (d->>'overlap_limit')::integer;
    r.staged := d->>'overlap' IN ('queue', 'cancel_running') OR json_typeof(request->'unique') = 'object';
    IF r.staged THEN
        r.running_unique_key := CASE json_typeof(request->'unique') WHEN 'object' THEN request->'unique'->>'running'
                                                                    ELSE r.unique_key END;
        r.running_overlap_key := CASE WHEN d->>'overlap' IN ('queue', 'cancel_running') THEN j.id ELSE r.overlap_key END;
    END IF;
    r.body := left(json_strip_nulls(json_build_object(
        'job', j.name, 'job_id', j.id, 'handler', handler, 'queue', queue, 'trigger', 'enqueue',
        'triggered_by', coalesce(request->>'by', 'sql'), 'traceparent', request->>'traceparent',
        'trace_id', coalesce(r.foreign_trace, replace(r.id::text, '-', '')), 'params', params, 'policy', d->>'policy',
        'tenant', r.tenant, 'priority', r.priority, 'overlap_slots', coalesce(r.slots, 1),
        'share', r.share, 'weight', r.weight, 'limits', r.limits
    ))::text, -1);
    RETURN r;
END
$$;

-- Rows the client has rendered come as {"plain": [...], "others": [...]}.
CREATE OR REPLACE FUNCTION mainspring.enqueue(request json) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
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
    IF json_typeof(request) = 'object' AND (request->'plain' IS NOT NULL OR request->'others' IS NOT NULL) THEN
        SELECT * INTO done FROM mainspring.add(request->'plain', request->'others', NULL);
        RETURN json_build_object('known', done.known, 'outcomes', done.outcomes);
    END IF;
    many := CASE WHEN json_typeof(request) = 'array' THEN request ELSE json_build_array(request) END;
    FOR one IN SELECT * FROM json_array_elements(many) LOOP
        r := mainspring.requested(one, now);
        SELECT * INTO done FROM mainspring.add_one(r, now);
        IF done.outcome = 'added' AND (r.share IS NOT NULL OR r.limits IS NOT NULL) THEN
            special := special || r.id;
        END IF;
        answers := answers || json_build_object('id', r.id, 'outcome', done.outcome, 'holder', done.holder);
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter(special);
    END IF;
    RETURN CASE WHEN json_typeof(request) = 'array' THEN array_to_json(answers) ELSE answers[1] END;
END
$$;

-- Rows, the ids of those that are not kept, and log lines. Who is known already is left alone, log lines and all.
-- Returns how many were new.
CREATE FUNCTION mainspring.restore(rows json, unkept uuid[], log_lines json) RETURNS bigint LANGUAGE plpgsql AS $$
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
        INSERT INTO mainspring.log (execution_id, seq, at, level, message)
        SELECT l.execution_id, l.seq, l.at, l.level, l.message
        FROM json_to_recordset(log_lines) AS l (
            execution_id uuid, seq integer, at bigint, level text, message text
        ) WHERE l.execution_id IN (SELECT id FROM given)
    )
    SELECT count(*), array_agg(g.id) FILTER (WHERE g.lives AND (g.share IS NOT NULL OR g.limits IS NOT NULL))
    INTO added, special FROM given g;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter(special);
    END IF;
    RETURN added;
END
$$;
