-- The executions of one job's ticks, with their numbers, from the incarnation that the write has locked anyway.
CREATE OR REPLACE FUNCTION mainspring.insert_tick_rows(
    of_job text, keyless mainspring.incoming[], others mainspring.incoming[], now bigint
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    known uuid[];
    outcomes json;
    n integer;
BEGIN
    IF keyless IS NULL AND others IS NULL THEN
        RETURN '{}'::json;
    END IF;
    SELECT i.last_number INTO base FROM mainspring.incarnation i WHERE i.job_id = of_job FOR UPDATE;
    FOR n IN 1 .. coalesce(cardinality(keyless), 0) LOOP
        base := base + 1;
        keyless[n].number := base;
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(others), 0) LOOP
        base := base + 1;
        others[n].number := base;
    END LOOP;
    IF keyless IS NOT NULL THEN
        known := mainspring.insert_keyless(keyless, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.insert_each(others, now);
    END IF;
    UPDATE mainspring.incarnation i SET last_number = base WHERE i.job_id = of_job;
    RETURN json_build_object('known', known, 'outcomes', outcomes);
END
$$;
