-- The keys of jobs, in the order given.
CREATE OR REPLACE FUNCTION mainspring.keys_of(job_ids text[], jobs text[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    keys integer[];
BEGIN
    FOR try IN 1..2 LOOP
        keys := ARRAY(
            SELECT (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = x.job_id)
                FROM unnest(job_ids) x (job_id)
        );
        EXIT WHEN array_position(keys, NULL) IS NULL;
        PERFORM mainspring.ensure_incarnations(job_ids, jobs);
    END LOOP;
    RETURN keys;
END
$$;
