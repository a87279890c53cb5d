CREATE OR REPLACE FUNCTION mainspring.add_ticks(
    of_job text, plain mainspring.incoming[], others mainspring.incoming[], now bigint
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    known uuid[];
    outcomes json;
    n integer;
BEGIN
    IF plain IS NULL AND others IS NULL THEN
        RETURN '{}'::json;
    END IF;
    SELECT i.last_number INTO base FROM mainspring.incarnation i WHERE i.job_id = of_job FOR UPDATE;
    FOR n IN 1 .. coalesce(cardinality(plain), 0) LOOP
        base := base + 1;
        plain[n].number := base;
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(others), 0) LOOP
        base := base + 1;
        others[n].number := base;
    END LOOP;
    IF plain IS NOT NULL THEN
        known := mainspring.add_plain(plain, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.add_each(others, now);
    END IF;
    UPDATE mainspring.incarnation i SET last_number = base WHERE i.job_id = of_job;
    RETURN json_build_object('known', known, 'outcomes', outcomes);
END
$$;
