-- Marks running rows as asked to stop; the time and reason of the first request stay. Returns the positions of those
-- that run under that token.
CREATE OR REPLACE FUNCTION mainspring.request_cancel(requests json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    one record;
    asked integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM json_to_recordset(requests) AS x (
            id uuid, token bigint, at bigint, reason text, audit json, n integer
        ) ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            cancel_requested = coalesce(l.cancel_requested, one.at),
            cancel_reason = CASE WHEN l.cancel_requested IS NULL THEN one.reason ELSE l.cancel_reason END
        WHERE l.id = one.id AND l.token = one.token AND l.phase = 2;
        CONTINUE WHEN NOT FOUND;
        asked := asked || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN asked;
END
$$;
