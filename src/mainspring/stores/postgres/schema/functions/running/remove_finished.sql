-- Deletes finished executions, their log lines and labels, except those whose follow-ups are not done. Returns which.
CREATE OR REPLACE FUNCTION mainspring.remove_finished(ids uuid[]) RETURNS uuid[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
AS $$
DECLARE
    gone uuid[];
BEGIN
    WITH deleted AS (
        DELETE FROM mainspring.history h WHERE h.id = ANY (ids) AND NOT h.todo RETURNING h.id
    )
    SELECT array_agg(d.id) INTO gone FROM deleted d;
    DELETE FROM mainspring.log g WHERE g.execution_id = ANY (gone);
    DELETE FROM mainspring.label b WHERE b.id = ANY (gone);
    RETURN gone;
END
$$;
