-- The follow-ups of these executions are done; those that are not to be kept are deleted.
CREATE OR REPLACE FUNCTION mainspring.todo_done(ids uuid[]) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
AS $$
BEGIN
    UPDATE mainspring.history h SET todo = false WHERE h.id = ANY (ids) AND h.todo;
    PERFORM mainspring.delete_finished(ARRAY(
        SELECT h.id FROM mainspring.history h WHERE h.id = ANY (ids) AND NOT h.keep
    ));
END
$$;
