-- The key of a limit with its places filled in for one request: see core.rules.limits.
CREATE OR REPLACE FUNCTION mainspring.filled(key text, tenant text, job text, queue text, params json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place text;
    value text;
BEGIN
    FOR place IN SELECT DISTINCT m[1] FROM regexp_matches(key, '\{([^{}]*)\}', 'g') m LOOP
        value := CASE place WHEN 'tenant' THEN tenant WHEN 'job' THEN job WHEN 'queue' THEN queue
                            ELSE params->>regexp_replace(place, '^params\.', '') END;
        value := left(regexp_replace(coalesce(nullif(value, ''), '-'), '[[:cntrl:]]', '?', 'g'), 200);
        key := replace(key, '{' || place || '}', value);
    END LOOP;
    RETURN left(key, 400);
END
$$;
