-- The row that a request asks for. The rules are in the template of the job, which core renders
-- (core.rules.new_execution); here the row gets an id, its instants, and what the request names.
CREATE OR REPLACE FUNCTION mainspring.row_of(request json, now bigint) RETURNS mainspring.incoming
LANGUAGE plpgsql AS $$
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
