-- `won` are the positions of the writes that won. Their executions are added, except those in `others`: [[position,
-- outcome, holder], ...]. Jobs that another scheduler has locked are skipped: it makes the same ticks, and if it
-- fails, they are still due.
CREATE OR REPLACE FUNCTION mainspring.write_ticks(t mainspring.ticks, OUT won bigint[], OUT others json)
LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    numbers bigint[];
    added uuid[];
    ended uuid[];
BEGIN
    PERFORM mainspring.ensure_incarnations(t.job_ids, t.jobs);
    WITH mine AS (
        SELECT g.*
        FROM unnest(
            t.jobs, t.job_ids, t.seen, t.next_runs, t.last_ticks, t.next_dues, t.ids, t.lanes, t.priorities, t.created,
            t.dues, t.bodies, t.overlap_keys, t.running_keys, t.staged
        ) WITH ORDINALITY g (
            job, job_id, seen, next_run, last_tick, next_due, id, lane, priority, created, due, body, overlap_key,
            running_key, staged, place
        )
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.job j WHERE j.name = g.job AND j.id = g.job_id AND j.version = g.seen
            FOR UPDATE SKIP LOCKED
        ) j
    ), advanced AS (
        UPDATE mainspring.job j SET
            version = m.seen + 1, next_run = m.next_run, last_tick = m.last_tick, due = m.next_due
        FROM mine m WHERE j.name = m.job
        RETURNING m.*
    ), numbered AS (
        UPDATE mainspring.incarnation i SET last_number = i.last_number + 1
        FROM advanced a WHERE i.job_id = a.job_id
        RETURNING a.*, i.key, i.last_number
    ), inserted AS (
        INSERT INTO mainspring.live (
            id, job_key, phase, lane, priority, created, due, body, number, staged, overlap_key, running_overlap_key,
            trigger
        )
        SELECT n.id, n.key, mainspring.phase_of(NULL, n.due, now), n.lane, n.priority, n.created, n.due, n.body,
               n.last_number, coalesce(n.staged, false), n.overlap_key, n.running_key, mainspring.trigger_of(n.body)
        FROM numbered n
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT array_agg(n.place), array_agg(n.last_number), (SELECT array_agg(i.id) FROM inserted i)
    INTO won, numbers, added FROM numbered n;
    ended := mainspring.remove_ended(added);
    IF ended IS NOT NULL OR coalesce(cardinality(added), 0) < cardinality(won) THEN
        others := mainspring.insert_refused_ticks(t, won, numbers, added, ended, now);
    END IF;
END
$$;
