-- Of rows just added, those that have a share or limits.
CREATE OR REPLACE FUNCTION mainspring.limited_rows(
    keyless mainspring.incoming[], known uuid[], others mainspring.incoming[], outcomes json
) RETURNS uuid[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(x.id) FROM (
        SELECT r.id FROM unnest(keyless) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.id <> ALL (coalesce(known, '{}'))
        UNION ALL
        SELECT r.id FROM ROWS FROM (unnest(others), json_array_elements(outcomes)) r
        WHERE (r.share IS NOT NULL OR r.limits IS NOT NULL) AND r.value->>0 = 'added'
    ) x
$$;
