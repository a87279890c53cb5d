-- Renews the leases that this worker holds, in the order of their ids, and the worker's own row. `worker_info` is NULL
-- when the worker has sent it before; `unknown` says that it is needed again.
CREATE OR REPLACE FUNCTION mainspring.beat(
    worker text, worker_info text, its_status text, ids uuid[], tokens bigint[], lease_for bigint,
    OUT kept uuid[], OUT cancels json, OUT now bigint, OUT unknown boolean
) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    now := mainspring.now_micros();
    IF worker_info IS NULL THEN
        UPDATE mainspring.worker w SET seen = now, status = its_status WHERE w.id = worker;
        unknown := NOT FOUND;
    ELSE
        INSERT INTO mainspring.worker AS w (id, seen, info, status) VALUES (worker, now, worker_info, its_status)
        ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, info = excluded.info, status = excluded.status;
        unknown := false;
    END IF;
    WITH renewed AS (
        UPDATE mainspring.live l SET lease = now + lease_for
        WHERE l.id = ANY (ids) AND l.phase = 2 AND l.owner = worker AND l.token = tokens[array_position(ids, l.id)]
        RETURNING l.id
    )
    SELECT array_agg(r.id) INTO kept FROM renewed r;
    cancels := mainspring.cancels(worker);
END
$$;

-- As the release before calls it.
CREATE OR REPLACE FUNCTION mainspring.heartbeat(
    worker text, worker_info text, ids uuid[], tokens bigint[], lease_for bigint,
    OUT kept uuid[], OUT cancels json, OUT now bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT b.kept, b.cancels, b.now INTO kept, cancels, now
    FROM mainspring.beat(worker, worker_info, NULL, ids, tokens, lease_for) b;
END
$$;
