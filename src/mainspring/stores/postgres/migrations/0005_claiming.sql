-- Promote what has become due: a bounded number at once, so that a million rows due at the same instant hold up no
-- claim. Returns when the next one will be.
CREATE FUNCTION mainspring.promote(now bigint) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    upcoming bigint := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
BEGIN
    IF upcoming <= now THEN
        UPDATE mainspring.live SET phase = 1, blocked = false
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l WHERE l.phase = 0 AND l.due <= now ORDER BY l.due LIMIT 1000
            FOR UPDATE SKIP LOCKED
        ));
        upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    END IF;
    RETURN upcoming;
END
$$;

-- Lanes that have ready rows of these handlers and queues: a loose index scan, one seek per lane, however many rows.
CREATE FUNCTION mainspring.ready_lanes(handlers text[], queues text[]) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1)
        FROM found WHERE found.lane IS NOT NULL
    )
    SELECT array_agg(lane) FROM found
    WHERE split_part(lane, '/', 2) = ANY (handlers) AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;

-- The lanes to take from, in order, once per row: highest priority first, lanes in turns within a priority. They are
-- counted here without locks; what is locked afterwards is the best of each lane that nobody else has locked.
CREATE FUNCTION mainspring.turns(lanes text[], wanted integer, turn integer) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
    WITH candidate AS (
        SELECT o.lane, c.priority, c.id
        FROM unnest(lanes) o (lane)
        CROSS JOIN LATERAL (
            SELECT l.priority, l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = o.lane ORDER BY l.priority DESC, l.id LIMIT wanted
        ) c
    ), ranked AS (
        SELECT lane, priority, row_number() OVER (PARTITION BY priority, lane ORDER BY id) AS round,
               dense_rank() OVER (PARTITION BY priority ORDER BY lane COLLATE "C") - 1 AS seat
        FROM candidate
    ), seated AS (
        SELECT lane, priority, round, seat, max(seat) OVER (PARTITION BY priority) + 1 AS seats FROM ranked
    ), chosen AS (
        SELECT lane, row_number() OVER (ORDER BY priority DESC, round, (seat - turn % seats + seats) % seats) AS n
        FROM seated
    )
    SELECT array_agg(lane ORDER BY n) FROM chosen WHERE n <= wanted
    );
END
$$;

-- Whether every lane has its share at the same priority, as in a backlog: then the lanes simply take turns, and no more
-- rows need be looked at than are wanted.
CREATE FUNCTION mainspring.is_even(lanes text[], wanted integer) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    share integer := (wanted + cardinality(lanes) - 1) / cardinality(lanes);
    level integer;
    best integer;
    worst integer;
    this_lane text;
BEGIN
    FOREACH this_lane IN ARRAY lanes LOOP
        best := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                 ORDER BY l.priority DESC, l.id LIMIT 1);
        worst := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                  ORDER BY l.priority DESC, l.id OFFSET share - 1 LIMIT 1);
        IF worst IS DISTINCT FROM best OR best IS DISTINCT FROM coalesce(level, best) THEN
            RETURN false;
        END IF;
        level := best;
    END LOOP;
    RETURN true;
END
$$;

-- A staged row trades its keys for the running ones; when one of those is held, the row is deferred by 5 s. True when
-- it was claimed. The holder stays locked until the deferral is committed, so that its ending finds the waiter; a
-- holder that is just being settled, or a key that an open transaction is about to take, is tried again very soon.
CREATE FUNCTION mainspring.claim_staged(wanted uuid, new_owner text, until bigint, now bigint, OUT holder uuid)
LANGUAGE plpgsql
    SET lock_timeout = '20ms'
AS $$
DECLARE
    delay bigint := 5000000;
    r mainspring.live;
BEGIN
    BEGIN
        UPDATE mainspring.live l SET
            phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
            started = coalesce(l.started, now), unique_key = l.running_unique_key, overlap_key = l.running_overlap_key,
            staged = false
        WHERE l.id = wanted;
        RETURN;
    EXCEPTION
        WHEN unique_violation THEN NULL;
        WHEN lock_not_available THEN delay := 50000;
    END;
    SELECT * INTO r FROM mainspring.live l WHERE l.id = wanted;
    SELECT l.id INTO holder FROM mainspring.live l WHERE l.unique_key = r.running_unique_key AND l.id <> wanted;
    IF holder IS NULL THEN
        SELECT l.id INTO holder FROM mainspring.live l WHERE l.overlap_key = r.running_overlap_key AND l.id <> wanted;
    END IF;
    PERFORM FROM mainspring.live l WHERE l.id = holder FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        delay := 50000;
    END IF;
    UPDATE mainspring.live l SET phase = 0, due = now + delay, blocked = true WHERE l.id = wanted;
END
$$;

CREATE FUNCTION mainspring.claim(
    new_owner text, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean,
    now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean
) LANGUAGE plpgsql AS $$
DECLARE
    found text[] := mainspring.ready_lanes(handlers, queues);
    lanes text[];
    order_of_lanes text[];
    until bigint := now + lease_for;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    trading uuid[];
    picked uuid[];
    one uuid;
    held uuid;
    holders uuid[] := '{}';
BEGIN
    taken := 0;
    alone_waiting := false;
    IF found IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(lane ORDER BY n) FILTER (WHERE (split_part(lane, '/', 3) = '') <> only_alone),
           coalesce(bool_or(split_part(lane, '/', 3) <> ''), false)
    INTO lanes, alone_waiting FROM unnest(found) WITH ORDINALITY l (lane, n);
    IF lanes IS NULL OR wanted < 1 THEN
        RETURN;
    END IF;
    IF cardinality(lanes) = 1 THEN
        WITH best AS MATERIALIZED (
            SELECT l.ctid AS place, l.id, l.priority, l.staged FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = lanes[1] ORDER BY l.priority DESC, l.id LIMIT wanted
            FOR UPDATE SKIP LOCKED
        ), mine AS (
            UPDATE mainspring.live l SET
                phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
                started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
            RETURNING l.priority, l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT (SELECT string_agg(m.text, ',' ORDER BY m.priority DESC, m.id) FROM mine m),
            array_agg(b.id ORDER BY b.priority DESC, b.id),
            array_agg(b.id ORDER BY b.priority DESC, b.id) FILTER (WHERE b.staged)
        INTO claimed, picked, trading FROM best b;
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
                phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
                started = coalesce(l.started, now)
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
                phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
                started = coalesce(l.started, now)
            WHERE l.ctid = ANY (ARRAY(SELECT place FROM placed WHERE NOT placed.staged))
            RETURNING l.id, mainspring.as_claimed(l, same) AS text
        )
        SELECT string_agg(m.text, ',' ORDER BY p.n), array_agg(p.id ORDER BY p.n),
            array_agg(p.id ORDER BY p.n) FILTER (WHERE p.staged)
        INTO claimed, picked, trading FROM placed p LEFT JOIN mine m ON m.id = p.id;
    END IF;
    taken := coalesce(cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        FOREACH one IN ARRAY trading LOOP
            held := mainspring.claim_staged(one, new_owner, until, now);
            holders := holders || held;
        END LOOP;
        SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) FILTER (WHERE l.phase = 2),
               string_agg('[' || mainspring.as_json(l) || ',' || coalesce(to_json(s.holder)::text, 'null') || ']', ',' ORDER BY p.n)
                   FILTER (WHERE l.phase = 0)
        INTO claimed, blocked
        FROM unnest(picked) WITH ORDINALITY p (id, n)
        JOIN mainspring.live l ON l.id = p.id
        LEFT JOIN unnest(trading, holders) s (id, holder) ON s.id = p.id
        WHERE l.id = ANY (picked);
    END IF;
    IF only_alone THEN
        alone_waiting := EXISTS (
            SELECT FROM unnest(mainspring.ready_lanes(handlers, queues)) lane WHERE split_part(lane, '/', 3) <> ''
        );
    END IF;
END
$$;

-- `applied` lists positions, NULL stands for all.
-- Settle, then claim, as separate steps of one transaction: the claim sees the keys that the settle freed.
-- A claim alone may be committed without waiting for the disk: should it be lost, the row waits as before, and the
-- fence holds the claimer's identity besides the number.
CREATE FUNCTION mainspring.exchange(
    usual mainspring.endings, batch mainspring.changes, new_owner text, handlers text[], queues text[], lease_for bigint, wanted integer,
    turn integer, only_alone boolean,
    OUT applied text, OUT freed boolean, OUT claimed text, OUT blocked text, OUT taken integer,
    OUT alone_waiting boolean, OUT next_due bigint, OUT now bigint
) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_nestloop = off
    SET jit = off
AS $$
DECLARE
    done integer[];
BEGIN
    now := mainspring.now_micros();
    IF usual.ids IS NOT NULL THEN
        SELECT s.applied, s.freed INTO done, freed FROM mainspring.settle_usual(usual, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(usual.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    ELSIF batch.ids IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        SELECT s.applied, s.freed INTO done, freed FROM mainspring.settle(batch, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(batch.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    END IF;
    next_due := mainspring.promote(now);
    IF wanted IS NOT NULL THEN
        SELECT c.claimed, c.blocked, c.taken, c.alone_waiting INTO claimed, blocked, taken, alone_waiting
        FROM mainspring.claim(new_owner, handlers, queues, lease_for, wanted, turn, only_alone, now) c;
        IF blocked IS NOT NULL THEN
            next_due := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
        END IF;
    END IF;
END
$$;
