-- Rows that ask for keys, or have ended: one by one, in order. Returns [[outcome, holder], ...].
CREATE OR REPLACE FUNCTION mainspring.insert_each(rows mainspring.incoming[], now bigint) RETURNS json LANGUAGE plpgsql
AS $$
DECLARE
    r mainspring.incoming;
    one record;
    outcomes json[] := '{}';
BEGIN
    PERFORM mainspring.ensure_incarnations(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    FOREACH r IN ARRAY rows LOOP
        SELECT * INTO one FROM mainspring.insert_one(r, now);
        outcomes := outcomes || json_build_array(one.outcome, one.holder);
    END LOOP;
    RETURN array_to_json(outcomes);
END
$$;
