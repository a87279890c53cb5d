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
$$;
