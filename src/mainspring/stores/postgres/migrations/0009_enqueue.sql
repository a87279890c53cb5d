-- Enqueue from anywhere, inside the caller's own transaction: one function, one JSON argument.
--
--   SELECT mainspring.enqueue('{"job": "send-reminder", "params": {"shift_id": "42"}, "unique": "reminder-42"}');
--
-- Fields: job (required), params, unique (a key, or {"enqueued": key, "running": key}), start_at (ISO 8601), priority,
-- queue, tenant, by, metadata, traceparent. The answer is {"id", "outcome", "holder"}; the outcome is added,
-- unique_taken, or skipped by the job's overlap policy. An array enqueues many and answers with an array.
-- A key that is taken is an answer, never an error: the transaction goes on.

CREATE FUNCTION mainspring.new_id(now bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex(now / 1000), 12, '0') || '7' || substr(r, 1, 3) || substr(r, 17, 16))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS r) x
$$;

-- The job's own parameters with the given ones on top; left as they came where there is nothing to merge.
CREATE FUNCTION mainspring.merged(own json, given json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN given IS NULL THEN own::text
                WHEN own::text = '{}' THEN given::text
                ELSE (own::jsonb || given::jsonb)::text END
$$;

-- A request as the row it asks for, with the rules the job has now.
CREATE FUNCTION mainspring.requested(request json, now bigint) RETURNS mainspring.incoming LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT text[] := ARRAY['job', 'params', 'unique', 'start_at', 'priority', 'queue', 'tenant', 'by',
                                   'metadata', 'traceparent'];
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
    r.lane := queue || '/' || handler;
    r.priority := coalesce((request->>'priority')::smallint, (d->>'priority')::integer);
    r.created := now;
    r.due := coalesce((extract(epoch FROM (request->>'start_at')::timestamptz) * 1000000)::bigint, now);
    r.tenant := request->>'tenant';
    r.metadata := request->'metadata';
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
        'tenant', r.tenant, 'priority', r.priority, 'overlap_slots', coalesce(r.slots, 1)
    ))::text, -1);
    RETURN r;
END
$$;

-- Rows the client has rendered come as {"plain": [...], "others": [...]}.
CREATE FUNCTION mainspring.enqueue(request json) RETURNS json LANGUAGE plpgsql
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
        answers := answers || json_build_object('id', r.id, 'outcome', done.outcome, 'holder', done.holder);
    END LOOP;
    RETURN CASE WHEN json_typeof(request) = 'array' THEN array_to_json(answers) ELSE answers[1] END;
END
$$;
