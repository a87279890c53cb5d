-- Deletes finished executions and their log lines, except those whose follow-ups are not done. Returns how many.
CREATE OR REPLACE FUNCTION mainspring.delete_finished(ids uuid[]) RETURNS integer LANGUAGE plpgsql
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
    RETURN coalesce(cardinality(gone), 0);
END
$$;
