-- While executions run, and after: heartbeats, notes, cancel requests, follow-ups.

CREATE FUNCTION mainspring.cancels(of_owner text) RETURNS json LANGUAGE plpgsql
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

-- Renews the leases this worker holds, in the order of their ids, and the worker's own row.
CREATE FUNCTION mainspring.beat(
    worker text, worker_info text, ids uuid[], tokens integer[], lease_for bigint,
    OUT kept uuid[], OUT cancels json, OUT now bigint
) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    now := mainspring.now_micros();
    INSERT INTO mainspring.worker AS w (id, seen, info) VALUES (worker, now, worker_info)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, info = excluded.info;
    WITH renewed AS (
        UPDATE mainspring.live l SET lease = now + lease_for
        WHERE l.id = ANY (ids) AND l.phase = 2 AND l.owner = worker AND l.token = tokens[array_position(ids, l.id)]
        RETURNING l.id
    )
    SELECT array_agg(r.id) INTO kept FROM renewed r;
    cancels := mainspring.cancels(worker);
END
$$;

-- Notes of rows that still run under that owner and token. Returns the positions of those stored. The newest 1,000
-- log lines stay.
CREATE FUNCTION mainspring.note(notes json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    one record;
    last integer;
    stored integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM ROWS FROM (
            json_to_recordset(notes) AS (
                id uuid, token integer, owner text, progress text, counters text, logs json, n integer
            )
        ) x ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            progress = coalesce(one.progress, l.progress), counters = coalesce(one.counters, l.counters)
        WHERE l.id = one.id AND l.phase = 2 AND l.token = one.token AND l.owner = one.owner;
        CONTINUE WHEN NOT FOUND;
        stored := stored || one.n;
        IF one.logs IS NOT NULL THEN
            last := coalesce((SELECT max(g.seq) FROM mainspring.log g WHERE g.execution_id = one.id), 0);
            INSERT INTO mainspring.log (execution_id, seq, at, level, message)
            SELECT one.id, last + g.n, (g.line->>0)::bigint, g.line->>1, g.line->>2
            FROM json_array_elements(one.logs) WITH ORDINALITY g (line, n)
            WHERE g.n > json_array_length(one.logs) - 1000;
            DELETE FROM mainspring.log g
            WHERE g.execution_id = one.id AND g.seq <= last + json_array_length(one.logs) - 1000;
        END IF;
    END LOOP;
    RETURN stored;
END
$$;

-- Marks running rows as asked to stop; the first request's time and reason stay. Returns the positions of those that
-- run under that token.
CREATE FUNCTION mainspring.request_cancel(requests json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    one record;
    asked integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM json_to_recordset(requests) AS x (
            id uuid, token integer, at bigint, reason text, audit json, n integer
        ) ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            cancel_requested = coalesce(l.cancel_requested, one.at),
            cancel_reason = CASE WHEN l.cancel_requested IS NULL THEN one.reason ELSE l.cancel_reason END
        WHERE l.id = one.id AND l.token = one.token AND l.phase = 2;
        CONTINUE WHEN NOT FOUND;
        asked := asked || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN asked;
END
$$;

-- Finished executions and their log lines, except those whose follow-ups are not done. Returns how many went.
CREATE FUNCTION mainspring.delete_finished(ids uuid[]) RETURNS integer LANGUAGE plpgsql
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

CREATE FUNCTION mainspring.todo_done(ids uuid[]) RETURNS void LANGUAGE plpgsql
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
