-- The job's own parameters with the given ones on top, in the order of app.enqueue. Values stay as they are written.
CREATE OR REPLACE FUNCTION mainspring.merged(own text, given json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
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
