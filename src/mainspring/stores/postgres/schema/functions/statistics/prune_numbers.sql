-- Deletes the numbers of executions that are gone: those made before the oldest one that is left.
CREATE OR REPLACE FUNCTION mainspring.prune_numbers(of_job text) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    k integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = of_job);
    oldest uuid := least(
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state = 'completed' ORDER BY h.id LIMIT 1),
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state <> 'completed' ORDER BY h.id LIMIT 1)
    );
BEGIN
    DELETE FROM mainspring.numbers n
    WHERE n.job_key = k AND n.span < mainspring.span_of(coalesce(oldest, mainspring.id_at(mainspring.now_micros())));
END
$$;
