-- Claims from a backlog. An index keeps an entry for each row that was claimed since the last vacuum, and a claim that
-- begins at the front of its lane walks over all of them, and over what its neighbours have just locked, which costs even
-- more. So a connection that has just claimed a full batch from a lane goes on where that one ended.

-- Who wants fewer rows claims in order.
CREATE FUNCTION mainspring.backlog() RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT 50 $$;

-- This connection has claimed everything in the lane and priority up to that row, or left it to whoever had locked it.
CREATE FUNCTION mainspring.remember(since bigint, priority integer, last uuid, lane text) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('mainspring.claimed_up_to', concat_ws(chr(30), since, priority, last, lane), false);
END
$$;

-- Lanes that have ready rows of these handlers and queues, but for one, over whose entries nobody walks.
CREATE FUNCTION mainspring.other_lanes(handlers text[], queues text[], but text) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
            SELECT coalesce((
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but)
            UNION ALL
            SELECT CASE WHEN found.lane < but THEN coalesce((
                SELECT l.lane FROM mainspring.live l
                WHERE l.phase = 1 AND l.lane > found.lane AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but) ELSE (
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1
            ) END
            FROM found WHERE found.lane IS NOT NULL
        )
        SELECT array_agg(lane) FROM found
        WHERE lane <> but AND split_part(lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;

-- The rows after those this connection claimed last, if nothing else is ready that comes before them: another lane, or a
-- higher priority. Rows that became ready further ahead, and those that somebody has touched (xmax), are passed over; they
-- are claimed in order, at the latest 200 ms after the last claim in order, or as soon as a batch is not full without them.
-- Pages are said to cost nothing: what counts is how many rows a plan looks at.
CREATE FUNCTION mainspring.claim_onward(
    new_owner text, handlers text[], queues text[], until bigint, wanted integer, now bigint,
    OUT claimed text, OUT taken integer
) LANGUAGE plpgsql
    SET seq_page_cost = 0
    SET random_page_cost = 0
AS $$
DECLARE
    mark text[] := string_to_array(current_setting('mainspring.claimed_up_to', true), chr(30));
    since bigint := mark[1];
    its_priority integer := mark[2];
    after uuid := mark[3];
    its_lane text := mark[4];
    last uuid;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
BEGIN
    taken := 0;
    IF its_lane IS NULL OR now NOT BETWEEN since AND since + 200000
        OR split_part(its_lane, '/', 2) <> ALL (handlers) OR split_part(its_lane, '/', 1) <> ALL (queues)
        OR mainspring.other_lanes(handlers, queues, its_lane) IS NOT NULL
        OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane = its_lane AND l.priority > its_priority)
    THEN
        RETURN;
    END IF;
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.phase < 2 AND l.lane = its_lane AND l.priority = its_priority AND l.id > after
            AND NOT l.staged AND l.xmax = '0'::xid
        ORDER BY l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
            started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best))
        RETURNING l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT string_agg(m.text, ',' ORDER BY m.id), count(*), (SELECT b.id FROM best b ORDER BY b.id DESC LIMIT 1)
    INTO claimed, taken, last FROM mine m;
    IF taken = wanted THEN
        PERFORM mainspring.remember(since, its_priority, last, its_lane);
    ELSE
        PERFORM set_config('mainspring.claimed_up_to', '', false);
    END IF;
END
$$;

DROP FUNCTION mainspring.claim(text, text[], text[], bigint, integer, integer, boolean, bigint);

-- From the front of each lane.
-- `woken` are rows that were made ready on the way, `contended` says that others were left because of a key that somebody
-- else has locked for a moment.
CREATE FUNCTION mainspring.claim_in_order(
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
    lowest integer;
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
            array_agg(b.id ORDER BY b.priority DESC, b.id) FILTER (WHERE b.staged), min(b.priority)
        INTO claimed, picked, trading, lowest FROM best b;
        IF wanted >= mainspring.backlog() AND cardinality(picked) = wanted AND trading IS NULL THEN
            PERFORM mainspring.remember(now, lowest, picked[wanted], lanes[1]);
        END IF;
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

CREATE FUNCTION mainspring.claim(
    new_owner text, handlers text[], queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean,
    now bigint, OUT claimed text, OUT blocked text, OUT taken integer, OUT alone_waiting boolean,
    OUT woken uuid[], OUT contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
    onward text;
    already integer := 0;
BEGIN
    IF wanted >= mainspring.backlog() AND NOT only_alone THEN
        SELECT o.claimed, o.taken INTO onward, already
        FROM mainspring.claim_onward(new_owner, handlers, queues, now + lease_for, wanted, now) o;
        IF already = wanted THEN
            claimed := onward;
            taken := already;
            alone_waiting := false;
            RETURN;
        END IF;
    END IF;
    SELECT c.claimed, c.blocked, already + c.taken, c.alone_waiting, c.woken, c.contended
    INTO claimed, blocked, taken, alone_waiting, woken, contended
    FROM mainspring.claim_in_order(
        new_owner, handlers, queues, lease_for, wanted - already, turn, only_alone, now
    ) c;
    IF onward IS NOT NULL THEN
        claimed := concat_ws(',', onward, claimed);
    END IF;
END
$$;
