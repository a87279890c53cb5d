-- `writes` are [{entry, seen, remove, audit, n}, ...]. Returns the positions of those that won. All processes write
-- entries in the order of their keys, so that no two wait for each other; writes of one entry happen in the order
-- given.
CREATE OR REPLACE FUNCTION mainspring.write_entries(writes json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    one record;
    won integer[] := '{}';
BEGIN
    FOR one IN
        SELECT x.*
        FROM json_to_recordset(writes) AS x (
            entry mainspring.entry, seen bigint, remove boolean, audit json, n integer
        )
        ORDER BY (x.entry).kind, (x.entry).scope, (x.entry).key, x.n
    LOOP
        CONTINUE WHEN NOT mainspring.write_entry(one.entry, one.seen, one.remove);
        won := won || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN won;
END
$$;
