-- The keys that these limits name, and how often each is named; each text is a JSON list that may name a key twice.
CREATE OR REPLACE FUNCTION mainspring.keys_in(all_limits text[]) RETURNS TABLE (key text, times bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT x.key, count(*) FROM (
        SELECT DISTINCT a.n, e->>'key' COLLATE "C" AS key
        FROM unnest(all_limits) WITH ORDINALITY a (limits, n) CROSS JOIN LATERAL json_array_elements(a.limits::json) e
    ) x GROUP BY x.key ORDER BY x.key
$$;
