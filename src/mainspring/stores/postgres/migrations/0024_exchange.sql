-- Fewer statements for each exchange, and smaller ones: what is looked at is looked at together, one ready lane is claimed
-- from without counting lanes, and what only rare rows have to say is put together elsewhere.

-- `rest_of`, but not put into the query that calls it: to prepare so long an expression costs more than a row.
CREATE FUNCTION mainspring.rarely_told(r mainspring.live) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN mainspring.rest_of(r);
END
$$;

CREATE OR REPLACE FUNCTION mainspring.as_claimed(r mainspring.live, same text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        ',"started":', r.started, same,
        CASE WHEN r.failures = 0 AND r.crashes = 0 AND NOT r.alone AND NOT r.staged AND num_nonnulls(
            r.number, r.unique_key, r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_requested,
            r.cancel_reason, r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress
        ) = 0 THEN '}' ELSE mainspring.rarely_told(r) END
    )
$$;

-- As before; whether anything else is ready is asked in one go.
CREATE OR REPLACE FUNCTION mainspring.claim_onward(
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
        OR ((
            EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane < its_lane)
            OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane > its_lane)
        ) AND mainspring.other_lanes(handlers, queues, its_lane) IS NOT NULL)
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

-- Of rows locked by this claim, in this order, those staged trade their keys for the running ones, one by one; the others
-- are claimed already. Tells all of them.
CREATE FUNCTION mainspring.trade(
    picked uuid[], trading uuid[], new_owner text, until bigint, now bigint, OUT claimed text, OUT blocked text
) LANGUAGE plpgsql AS $$
DECLARE
    one uuid;
    held uuid;
    holders uuid[] := '{}';
BEGIN
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
END
$$;

-- From the front of one lane, whose rows have neither a share nor limits.
CREATE FUNCTION mainspring.claim_lane(
    its_lane text, new_owner text, until bigint, wanted integer, now bigint,
    OUT claimed text, OUT blocked text, OUT taken integer
) LANGUAGE plpgsql AS $$
DECLARE
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    picked uuid[];
    trading uuid[];
    lowest integer;
BEGIN
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id, l.priority, l.staged FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = its_lane ORDER BY l.priority DESC, l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
            started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
        RETURNING l.priority, l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT (SELECT string_agg(m.text, ',' ORDER BY m.priority DESC, m.id) FROM mine m),
        array_agg(b.id), array_agg(b.id) FILTER (WHERE b.staged), min(b.priority)
    INTO claimed, picked, trading, lowest FROM best b;
    taken := coalesce(cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        SELECT t.claimed, t.blocked INTO claimed, blocked FROM mainspring.trade(picked, trading, new_owner, until, now) t;
    ELSIF taken = wanted AND wanted >= mainspring.backlog() THEN
        PERFORM mainspring.remember(now, lowest, picked[wanted], its_lane);
    END IF;
END
$$;

-- From the front of each lane.
-- `woken` are rows that were made ready on the way, `contended` says that others were left because of a key that somebody
-- else has locked for a moment.
CREATE OR REPLACE FUNCTION mainspring.claim_in_order(
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
        SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
        FROM mainspring.claim_lane(lanes[1], new_owner, until, wanted, now) c;
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
        SELECT t.claimed, t.blocked INTO claimed, blocked
        FROM mainspring.trade(picked, trading, new_owner, until, now) t;
    END IF;
    IF only_alone THEN
        alone_waiting := EXISTS (
            SELECT FROM unnest(mainspring.ready_lanes(handlers, queues)) lane WHERE split_part(lane, '/', 3) <> ''
        );
    END IF;
END
$$;

DROP FUNCTION mainspring.claim(text, text[], text[], bigint, integer, integer, boolean, bigint);

-- `applied` lists positions, NULL stands for all; `freed` says that rows are ready that this claim did not take.
-- Settle, wake what is parked, promote, then claim, as separate steps of one transaction: the claim sees the keys that
-- the settle freed. A claim goes on where the last one of its connection ended; or, when one lane alone is ready, begins at
-- its front; or takes its rows lane by lane.
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
    onward text;
    already integer := 0;
    first_lane text;
    last_lane text;
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
    SELECT (
            SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
            WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
        ), (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1)
    INTO look, next_due;
    IF look <= now OR look > now + 5000000 THEN
        woken := woken || mainspring.look(now);
        look := mainspring.first_look();
        next_due := now;
    END IF;
    IF next_due <= now THEN
        SELECT p.upcoming, p.fair INTO next_due, promoted FROM mainspring.promote(now) p;
    END IF;
    IF fair IS NOT NULL OR promoted IS NOT NULL THEN
        PERFORM mainspring.give_tags(fair || promoted);
    END IF;
    IF wanted IS NOT NULL THEN
        alone_waiting := false;
        IF wanted >= mainspring.backlog() AND NOT only_alone AND current_setting('mainspring.claimed_up_to', true) <> '' THEN
            SELECT o.claimed, o.taken INTO claimed, already
            FROM mainspring.claim_onward(new_owner, handlers, queues, now + lease_for, wanted, now) o;
        END IF;
        IF already = 0 OR already < wanted THEN
            SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1),
                (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane DESC LIMIT 1)
            INTO first_lane, last_lane;
        END IF;
        IF first_lane = last_lane AND already = 0 AND NOT only_alone
            AND split_part(first_lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(first_lane, '/', 1) = ANY (queues))
            AND split_part(first_lane, '/', 3) = '' AND split_part(first_lane, '/', 4) = ''
        THEN
            SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
            FROM mainspring.claim_lane(first_lane, new_owner, now + lease_for, wanted, now) c;
        ELSIF first_lane IS NOT NULL THEN
            onward := claimed;
            SELECT c.claimed, c.blocked, already + c.taken, c.alone_waiting, c.woken, c.contended
            INTO claimed, blocked, taken, alone_waiting, woken_late, contended
            FROM mainspring.claim_in_order(
                new_owner, handlers, queues, lease_for, wanted - already, turn, only_alone, now
            ) c;
            IF onward IS NOT NULL THEN
                claimed := concat_ws(',', onward, claimed);
            END IF;
        END IF;
        taken := coalesce(taken, already);
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
