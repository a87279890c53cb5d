-- Claims from the front of each lane. `woken` are rows that became ready during the claim; `contended` says that rows
-- were left because another transaction had a key of their limits locked.
CREATE OR REPLACE FUNCTION mainspring.claim_in_order(
    new_owner text, stamp bigint, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer,
    only_alone boolean, now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean,
    OUT woken uuid[], OUT contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
    found text[] := mainspring.ready_lanes(handlers, queues);
    lanes text[];
    special boolean;
    order_of_lanes text[];
    until bigint := now + lease_for;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    trading uuid[];
    picked uuid[];
BEGIN
    alone_waiting := false;
    IF found IS NULL THEN
        taken := 0;
        RETURN;
    END IF;
    SELECT array_agg(lane ORDER BY n) FILTER (WHERE (split_part(lane, '/', 3) = '') <> only_alone),
           coalesce(bool_or(split_part(lane, '/', 3) <> ''), false),
           bool_or(split_part(lane, '/', 4) <> '' AND (split_part(lane, '/', 3) = '') <> only_alone)
    INTO lanes, alone_waiting, special FROM unnest(found) WITH ORDINALITY l (lane, n);
    IF lanes IS NULL OR wanted < 1 THEN
        taken := 0;
        RETURN;
    END IF;
    IF special THEN
        -- If a crash lost the claim, its slot would be free, and one execution too many could run: wait for the disk.
        PERFORM set_config('synchronous_commit', 'on', true);
        SELECT c.claimed, c.blocked, c.taken, c.woken, c.contended INTO claimed, blocked, taken, woken, contended
        FROM mainspring.claim_limited(lanes, new_owner, stamp, until, wanted, turn, now) c;
    ELSIF cardinality(lanes) = 1 THEN
        SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
        FROM mainspring.claim_lane(lanes[1], new_owner, stamp, until, wanted, now) c;
    ELSIF mainspring.is_even(lanes, wanted) THEN
        WITH best AS MATERIALIZED (
            SELECT b.place, b.id, b.staged, b.round * cardinality(lanes) + o.seat AS n
            FROM (
                SELECT x.lane, (x.n - 1 - turn % cardinality(lanes) + cardinality(lanes)) % cardinality(lanes) AS seat
                FROM unnest(lanes) WITH ORDINALITY x (lane, n)
            ) o CROSS JOIN LATERAL (
                SELECT x.place, x.id, x.staged, row_number() OVER () - 1 AS round FROM (
                    SELECT l.ctid AS place, l.id, l.staged FROM mainspring.live l
                    WHERE l.phase = 1 AND l.lane = o.lane ORDER BY l.priority DESC, l.id
                    LIMIT (wanted - o.seat + cardinality(lanes) - 1) / cardinality(lanes)
                    FOR UPDATE SKIP LOCKED
                ) x
            ) b
        ), mine AS (
            UPDATE mainspring.live l SET
                phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
                claimed = now, started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
            RETURNING l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT string_agg(m.text, ',' ORDER BY b.n), array_agg(b.id ORDER BY b.n),
            array_agg(b.id ORDER BY b.n) FILTER (WHERE b.staged)
        INTO claimed, picked, trading FROM best b LEFT JOIN mine m ON m.id = b.id;
    ELSE
        order_of_lanes := mainspring.turns(lanes, wanted, turn);
        WITH seat AS MATERIALIZED (
            SELECT lane, n, row_number() OVER (PARTITION BY lane ORDER BY n) AS nth
            FROM unnest(order_of_lanes) WITH ORDINALITY o (lane, n)
        ), quota AS (
            SELECT lane, max(nth) AS rows FROM seat GROUP BY lane
        ), best AS MATERIALIZED (
            SELECT q.lane, b.place, b.id, b.staged, b.nth
            FROM quota q CROSS JOIN LATERAL (
                SELECT x.place, x.id, x.staged, row_number() OVER () AS nth FROM (
                    SELECT l.ctid AS place, l.id, l.staged FROM mainspring.live l
                    WHERE l.phase = 1 AND l.lane = q.lane ORDER BY l.priority DESC, l.id LIMIT q.rows
                    FOR UPDATE SKIP LOCKED
                ) x
            ) b
        ), placed AS MATERIALIZED (
            SELECT b.place, b.id, b.staged, s.n FROM best b JOIN seat s ON s.lane = b.lane AND s.nth = b.nth
        ), mine AS (
            UPDATE mainspring.live l SET
                phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
                claimed = now, started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM placed WHERE NOT placed.staged))
            RETURNING l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT string_agg(m.text, ',' ORDER BY p.n), array_agg(p.id ORDER BY p.n),
            array_agg(p.id ORDER BY p.n) FILTER (WHERE p.staged)
        INTO claimed, picked, trading FROM placed p LEFT JOIN mine m ON m.id = p.id;
    END IF;
    taken := coalesce(taken, cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        SELECT t.claimed, t.blocked INTO claimed, blocked
        FROM mainspring.trade(picked, trading, new_owner, stamp, until, now) t;
    END IF;
    IF only_alone THEN
        alone_waiting := EXISTS (
            SELECT FROM unnest(mainspring.ready_lanes(handlers, queues)) lane WHERE split_part(lane, '/', 3) <> ''
        );
    END IF;
END
$$;
