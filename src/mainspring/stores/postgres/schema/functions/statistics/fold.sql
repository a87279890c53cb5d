-- Merges deltas into the totals and gives numbers. One process at a time: a second one waits, and finds less to do.
CREATE OR REPLACE FUNCTION mainspring.fold(most integer) RETURNS integer LANGUAGE plpgsql
    SET jit = off
AS $$
DECLARE
    folded mainspring.delta[];
BEGIN
    PERFORM pg_advisory_xact_lock('mainspring.delta'::regclass::oid::bigint);
    WITH taken AS (
        DELETE FROM mainspring.delta WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM mainspring.delta d LIMIT most))
        RETURNING *
    )
    SELECT array_agg(t::mainspring.delta) INTO folded FROM taken t;
    IF folded IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO mainspring.totals AS t
    SELECT d.job_key, sum(d.completed), sum(d.partial), sum(d.failed), sum(d.cancelled), sum(d.skipped),
        sum(d.duration_ms), sum(d.timed), sum(d.rescued), NULL, NULL, NULL, NULL, NULL, 0
    FROM unnest(folded) d GROUP BY d.job_key ORDER BY d.job_key
    ON CONFLICT (job_key) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped, duration_ms = t.duration_ms + excluded.duration_ms,
        timed = t.timed + excluded.timed, rescued = t.rescued + excluded.rescued;
    UPDATE mainspring.totals t SET
        last_id = d.last_id, last_state = d.last_state, last_started = d.last_started,
        last_finished = d.last_finished, last_error = d.last_error, last_failures = d.last_failures
    FROM (
        SELECT DISTINCT ON (d.job_key) d.* FROM unnest(folded) d WHERE d.last_id IS NOT NULL
        ORDER BY d.job_key, d.last_id DESC
    ) d
    WHERE t.job_key = d.job_key AND (t.last_id IS NULL OR t.last_id < d.last_id);
    PERFORM mainspring.fold_triggers(folded);
    PERFORM mainspring.give_numbers(folded);
    RETURN cardinality(folded);
END
$$;
