-- Renews the leases that this worker holds, in the order of their ids, and the worker's own row.
CREATE OR REPLACE FUNCTION mainspring.heartbeat(
    worker text, worker_info text, ids uuid[], tokens bigint[], lease_for bigint,
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
