-- The trace id of a W3C trace context; NULL when it is not a valid one: see model.values.trace_context.
CREATE OR REPLACE FUNCTION mainspring.trace_of(context text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(context) <= 713 AND length(split_part(context, ' ', 1)) <= 200 AND context !~ '[[:cntrl:]]'
                THEN nullif(substring(context FROM '^[^ -]*-([0-9a-f]{32})-[^ -]*-'), repeat('0', 32)) END
$$;
