-- The job that a request is for. Raises an error for a request that no job could take.
CREATE OR REPLACE FUNCTION mainspring.enqueueable(request json) RETURNS mainspring.job LANGUAGE plpgsql AS $$
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
    END IF;
    FOREACH wrong IN ARRAY ARRAY['params', 'metadata'] LOOP
        IF coalesce(json_typeof(request->wrong), 'null') NOT IN ('object', 'null') THEN
            RAISE EXCEPTION '%: a JSON object is needed, not %', wrong, json_typeof(request->wrong);
        END IF;
    END LOOP;
    RETURN j;
END
$$;
