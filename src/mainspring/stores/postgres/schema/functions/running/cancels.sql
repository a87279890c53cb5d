-- Running executions of this owner that were asked to stop, with the reasons.
CREATE OR REPLACE FUNCTION mainspring.cancels(of_owner text) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN (
        SELECT json_object_agg(l.id, coalesce(l.cancel_reason, '')) FROM mainspring.live l
        WHERE l.cancel_requested IS NOT NULL AND l.owner = of_owner AND l.phase = 2
    );
END
$$;
