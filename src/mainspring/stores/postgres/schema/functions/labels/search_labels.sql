-- The labels of an execution with these parameters, for the search keys at these paths: as core.rules.search_keys does.
CREATE OR REPLACE FUNCTION mainspring.search_labels(paths text[], params json) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(y.label ORDER BY y.place) FROM (
        SELECT x.label, min(x.place) AS place FROM (
            SELECT p.path || '=' || left(v.value #>> '{}', 200) AS label, (p.n - 1) * 10 + v.n AS place
            FROM unnest(paths) WITH ORDINALITY p (path, n)
            CROSS JOIN LATERAL (SELECT params #> string_to_array(p.path, '.') AS found) f
            CROSS JOIN LATERAL json_array_elements(
                CASE json_typeof(f.found) WHEN 'array' THEN f.found ELSE json_build_array(f.found) END
            ) WITH ORDINALITY v (value, n)
            WHERE v.n <= 10 AND json_typeof(v.value) IN ('string', 'number', 'boolean')
        ) x GROUP BY x.label ORDER BY place LIMIT 10
    ) y
$$;
