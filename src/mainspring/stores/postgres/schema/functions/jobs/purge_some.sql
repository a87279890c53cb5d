-- Removes a part of the history of one job that was deleted with its history; false when nothing is left to do.
CREATE OR REPLACE FUNCTION mainspring.purge_some(most integer) RETURNS boolean LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    gone integer := (SELECT p.job_key FROM mainspring.purge p LIMIT 1);
    ids uuid[];
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    ids := ARRAY(
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state = 'completed'
        UNION ALL
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state <> 'completed'
        LIMIT most
    );
    DELETE FROM mainspring.history h WHERE h.id = ANY (ids);
    DELETE FROM mainspring.log g WHERE g.execution_id = ANY (ids);
    DELETE FROM mainspring.label b WHERE b.id = ANY (ids);
    IF cardinality(ids) < most THEN
        DELETE FROM mainspring.numbers n WHERE n.job_key = gone;
        DELETE FROM mainspring.purge p WHERE p.job_key = gone;
    END IF;
    RETURN true;
END
$$;
