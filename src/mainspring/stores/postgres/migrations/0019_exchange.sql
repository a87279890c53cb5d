-- Settle, then claim, with shares and limits.

-- Whether every lane has its share at the same priority, as in a backlog: then the lanes simply take turns, and no more
-- rows need be looked at than are wanted.
CREATE OR REPLACE FUNCTION mainspring.is_even(lanes text[], wanted integer) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    each integer := (wanted + cardinality(lanes) - 1) / cardinality(lanes);
    level integer;
    best integer;
    worst integer;
    this_lane text;
BEGIN
    FOREACH this_lane IN ARRAY lanes LOOP
        best := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                 ORDER BY l.priority DESC, l.id LIMIT 1);
        worst := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                  ORDER BY l.priority DESC, l.id OFFSET each - 1 LIMIT 1);
        IF worst IS DISTINCT FROM best OR best IS DISTINCT FROM coalesce(level, best) THEN
            RETURN false;
        END IF;
        level := best;
    END LOOP;
    RETURN true;
END
$$;

-- `woken` are rows that were made ready on the way, `contended` says that others were left because of a key that somebody
-- else has locked for a moment.
CREATE FUNCTION mainspring.claim(
    new_owner text, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean,
    now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean,
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
    one uuid;
    held uuid;
    holders uuid[] := '{}';
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
        -- A slot that a crash of the server gave back would let one too many run: such a claim waits for the disk.
        PERFORM set_config('synchronous_commit', 'on', true);
        SELECT c.claimed, c.blocked, c.taken, c.woken, c.contended INTO claimed, blocked, taken, woken, contended
        FROM mainspring.claim_special(lanes, new_owner, until, wanted, turn, now) c;
    ELSIF cardinality(lanes) = 1 THEN
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
    taken := coalesce(taken, cardinality(picked), 0);
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

CREATE FUNCTION mainspring.first_look() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
        WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
    );
END
$$;

-- `applied` lists positions, NULL stands for all; `freed` says that rows are ready that this claim did not take.
-- Settle, wake what is parked, promote, then claim, as separate steps of one transaction: the claim sees the keys that
-- the settle freed.
-- A claim alone may be committed without waiting for the disk: should it be lost, the row waits as before, and the
-- fence holds the claimer's identity besides the number.
CREATE OR REPLACE FUNCTION mainspring.exchange(
    usual mainspring.endings, batch mainspring.changes, new_owner text, handlers text[], queues text[], lease_for bigint,
    wanted integer, turn integer, only_alone boolean,
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
    fair uuid[];
    promoted uuid[];
    woken uuid[];
    woken_late uuid[];
    look bigint;
    contended boolean;
BEGIN
    now := mainspring.now_micros();
    IF usual.ids IS NOT NULL THEN
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken FROM mainspring.settle_usual(usual, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(usual.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    ELSIF batch.ids IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken FROM mainspring.settle(batch, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(batch.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    END IF;
    look := mainspring.first_look();
    IF look <= now THEN
        woken := woken || mainspring.look(now);
        look := mainspring.first_look();
    END IF;
    SELECT p.upcoming, p.fair INTO next_due, promoted FROM mainspring.promote(now) p;
    IF fair IS NOT NULL OR promoted IS NOT NULL THEN
        PERFORM mainspring.give_tags(fair || promoted);
    END IF;
    IF wanted IS NOT NULL THEN
        SELECT c.claimed, c.blocked, c.taken, c.alone_waiting, c.woken, c.contended
        INTO claimed, blocked, taken, alone_waiting, woken_late, contended
        FROM mainspring.claim(new_owner, handlers, queues, lease_for, wanted, turn, only_alone, now) c;
        IF blocked IS NOT NULL THEN
            next_due := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
        END IF;
        IF contended IS NOT NULL THEN
            look := mainspring.first_look();
            next_due := CASE WHEN contended THEN least(next_due, now + 5000) ELSE next_due END;
        END IF;
    END IF;
    next_due := least(next_due, look);
    woken := woken || woken_late;
    IF woken IS NOT NULL AND freed IS DISTINCT FROM true THEN
        freed := EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (woken) AND greatest(l.phase, 0::smallint) = 1);
    END IF;
END
$$;
