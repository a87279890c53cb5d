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
