-- Adds deltas to the totals by trigger.
CREATE OR REPLACE FUNCTION mainspring.fold_triggers(folded mainspring.delta[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.trigger_totals AS t
    SELECT d.job_key, coalesce(d.trigger, 'enqueue') AS its_trigger, sum(d.completed), sum(d.partial), sum(d.failed),
        sum(d.cancelled), sum(d.skipped)
    FROM unnest(folded) d GROUP BY d.job_key, its_trigger
    HAVING sum(d.completed + d.partial + d.failed + d.cancelled + d.skipped) > 0
    ORDER BY d.job_key, its_trigger
    ON CONFLICT (job_key, trigger) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped;
END
$$;
