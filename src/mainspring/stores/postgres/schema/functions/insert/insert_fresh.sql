-- Fresh rows, whose bodies all begin with `opening` and come without it. Ids are new, except when a statement is
-- repeated after a lost connection. ON CONFLICT searches for the row first and writes it to the log twice, a quarter
-- more work. So rows without a unique key are inserted as if all were new; only if one is not, all are inserted with
-- ON CONFLICT. Returns [[position, outcome, holder], ...] of those that were not added; NULL when all were.
CREATE OR REPLACE FUNCTION mainspring.insert_fresh(rows mainspring.fresh, opening text, news text) RETURNS json
LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET lock_timeout = '10ms'
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keys integer[] := mainspring.keys_of(rows.job_ids, rows.jobs);
    its_key integer := keys[1];
    its_lane text := rows.lanes[1];
    its_priority integer := rows.priorities[1];
    its_trigger text := mainspring.trigger_of(opening);
    added uuid[];
    ended uuid[];
BEGIN
    IF rows.unique_keys IS NULL THEN
        BEGIN
            INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, foreign_trace, trigger, body)
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key),
                coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.foreign_trace, coalesce(its_trigger, mainspring.trigger_of(r.body)), opening || r.body
            FROM unnest(
                rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces
            ) r (id, created, body, key, lane, priority, due, foreign_trace);
            added := rows.ids;
        EXCEPTION
            WHEN unique_violation THEN NULL;
        END;
    END IF;
    IF added IS NULL THEN
        WITH inserted AS (
            INSERT INTO mainspring.live (
                id, created, due, job_key, priority, phase, lane, unique_key, foreign_trace, trigger, body
            )
            SELECT r.id, r.created, coalesce(r.due, r.created), coalesce(r.key, its_key),
                coalesce(r.priority, its_priority),
                CASE WHEN coalesce(r.due, r.created) <= now THEN 1 ELSE 0 END, coalesce(r.lane, its_lane),
                r.unique_key, r.foreign_trace, coalesce(its_trigger, mainspring.trigger_of(r.body)), opening || r.body
            FROM unnest(
                rows.ids, rows.created, rows.bodies, keys, rows.lanes, rows.priorities, rows.dues, rows.foreign_traces,
                rows.unique_keys
            ) r (id, created, body, key, lane, priority, due, foreign_trace, unique_key)
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT array_agg(i.id) INTO added FROM inserted i;
    END IF;
    ended := mainspring.remove_ended(added, rows.low, rows.high);
    IF news IS NOT NULL THEN
        PERFORM pg_notify(split_part('mainspring.', '.', 1), news);
    END IF;
    IF ended IS NULL AND cardinality(added) = cardinality(rows.ids) THEN
        RETURN NULL;
    END IF;
    rows.bodies := ARRAY(SELECT opening || b.body FROM unnest(rows.bodies) WITH ORDINALITY b (body, n) ORDER BY b.n);
    RETURN mainspring.insert_missed(rows, added, ended, now);
END
$$;
