-- Claiming rows that have a share or limits. Rows that have neither are claimed as before; as soon as one of the lanes to
-- claim from is of the other kind, all of them go through `claim_special`.

DROP FUNCTION mainspring.promote(bigint);
DROP FUNCTION mainspring.claim(text, text[], text[], bigint, integer, integer, boolean, bigint);

-- Promote what has become due: a bounded number at once, so that a million rows due at the same instant hold up no
-- claim. `upcoming` is when the next one will be, `fair` are those that need a tag.
CREATE FUNCTION mainspring.promote(now bigint, OUT upcoming bigint, OUT fair uuid[]) LANGUAGE plpgsql
AS $$
BEGIN
    upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    IF upcoming <= now THEN
        WITH promoted AS (
            UPDATE mainspring.live SET phase = 1, blocked = false
            WHERE ctid = ANY (ARRAY(
                SELECT l.ctid FROM mainspring.live l WHERE l.phase = 0 AND l.due <= now ORDER BY l.due LIMIT 1000
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id, share
        )
        SELECT array_agg(p.id) FILTER (WHERE p.share IS NOT NULL) INTO fair FROM promoted p;
        upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    END IF;
END
$$;

-- A staged row trades its keys for the running ones; when one of those is held, the row is deferred by 5 s. True when
-- it was claimed. The holder stays locked until the deferral is committed, so that its ending finds the waiter; a
-- holder that is just being settled, or a key that an open transaction is about to take, is tried again very soon.
CREATE OR REPLACE FUNCTION mainspring.claim_staged(wanted uuid, new_owner text, until bigint, now bigint, OUT holder uuid)
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
            staged = false, tag = NULL
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
    UPDATE mainspring.live l SET phase = 0, due = now + delay, blocked = true, tag = NULL WHERE l.id = wanted;
END
$$;

-- --------------------------------------------------------------------------------------------- limits

-- What the bucket holds now: see model.limits.refilled. One that nobody has used yet is full.
CREATE FUNCTION mainspring.refilled(
    level double precision, since bigint, now bigint, rate double precision, burst integer
) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(least(burst, level + greatest(0, now - since) * rate / 1000000), burst)
$$;

-- Whole tokens; one that is short of a millionth by the rounding of sums is one.
CREATE FUNCTION mainspring.tokens_in(level double precision) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT greatest(0, floor(level + 1e-6))::integer $$;

-- When those who wait for a slot (no rate), or for a token, are to be looked at again.
CREATE FUNCTION mainspring.next_look(level double precision, now bigint, rate double precision) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT now + least(5000000, ceil(greatest(0, 1 - level) * 1000000 / rate))::bigint
$$;

-- Keys whose look has come: as many rows are ready again as there is room for, by the numbers of the first of them.
-- Keys that somebody else has locked are being looked at.
CREATE FUNCTION mainspring.look(now bigint) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    s mainspring.limit_state;
    first json;
    level double precision;
    room integer;
    woken uuid[];
BEGIN
    FOR s IN
        SELECT l.* FROM mainspring.limit_state l
        WHERE (l.slot_look IS NOT NULL OR l.token_look IS NOT NULL) AND least(l.slot_look, l.token_look) <= now
        ORDER BY least(l.slot_look, l.token_look) LIMIT 100
        FOR UPDATE SKIP LOCKED
    LOOP
        IF s.slot_look <= now THEN
            first := mainspring.first_parked(s.key, false);
            room := greatest((first->>'concurrency')::integer - s.running, 0);
            woken := woken || mainspring.wake(s.key, false, room);
            s.slot_look := CASE WHEN mainspring.is_awaited(s.key, false) THEN now + 5000000 END;
        END IF;
        IF s.token_look <= now THEN
            first := mainspring.first_parked(s.key, true);
            level := mainspring.refilled(
                s.level, s.since, now, (first->>'rate')::double precision, (first->>'burst')::integer
            );
            room := mainspring.tokens_in(level);
            woken := woken || mainspring.wake(s.key, true, room);
            s.token_look := CASE WHEN mainspring.is_awaited(s.key, true)
                THEN mainspring.next_look(level - room, now, (first->>'rate')::double precision) END;
        END IF;
        UPDATE mainspring.limit_state l SET slot_look = s.slot_look, token_look = s.token_look WHERE l.key = s.key;
    END LOOP;
    RETURN woken;
END
$$;

-- The limit that the first of the rows parked under a key waits for.
CREATE FUNCTION mainspring.first_parked(of_key text, with_token boolean) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    its_limits json := (
        SELECT l.limits::json FROM mainspring.live l WHERE l.parked = of_key AND l.for_token = with_token
        ORDER BY l.priority DESC, coalesce(l.tag, 0), l.id LIMIT 1
    );
BEGIN
    RETURN (
        SELECT x FROM json_array_elements(its_limits) x
        WHERE x->>'key' = of_key AND (x->>'concurrency' IS NULL) = with_token LIMIT 1
    );
END
$$;

-- Locks the keys of these limits, those of them that nobody else has locked. Nobody is waited for: whoever claims may
-- have locked other keys when it settled.
CREATE FUNCTION mainspring.hold_keys(all_limits text[]) RETURNS mainspring.limit_state[] LANGUAGE plpgsql AS $$
DECLARE
    wanted text[] := ARRAY(SELECT k.key FROM mainspring.keys_in(all_limits) k);
BEGIN
    INSERT INTO mainspring.limit_state (key)
    SELECT w.key FROM unnest(wanted) w (key)
    WHERE NOT EXISTS (SELECT FROM mainspring.limit_state s WHERE s.key = w.key) ORDER BY w.key
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(
        SELECT s FROM mainspring.limit_state s WHERE s.key = ANY (wanted) FOR UPDATE SKIP LOCKED
    );
END
$$;

-- Judges rows one by one, in this order, and claims those that have room under all of their limits and get the keys they
-- trade theirs for. A row without room is parked and passes on the room it had under the limits before that one. A row
-- whose key somebody else has locked stays as it is: `left_ready` of them. `claimable` are rows that the caller is
-- to claim; `blocked` and `holders` staged ones that could not be.
CREATE FUNCTION mainspring.judge(
    picked uuid[], new_owner text, until bigint, now bigint, OUT claimable uuid[], OUT blocked uuid[], OUT holders uuid[],
    OUT woken uuid[], OUT left_ready integer
) LANGUAGE plpgsql AS $$
DECLARE
    states mainspring.limit_state[] := mainspring.hold_keys(ARRAY(
        SELECT l.limits FROM mainspring.live l WHERE l.id = ANY (picked) AND l.limits IS NOT NULL
    ));
    keys text[] := ARRAY(SELECT s.key FROM unnest(states) s);
    one uuid;
    r record;
    e record;  -- one of its limits
    n integer;
    level double precision;
    passed integer[];
    counted integer[];
    room boolean;
    holder uuid;
BEGIN
    left_ready := 0;
    <<each_row>>
    FOREACH one IN ARRAY picked LOOP
        SELECT l.limits, l.staged INTO r FROM mainspring.live l WHERE l.id = one;
        passed := '{}';
        FOR e IN
            SELECT array_position(keys, x->>'key') AS n, (x->>'concurrency')::integer AS slots,
                (x->>'rate')::double precision AS rate, (x->>'burst')::integer AS burst
            FROM json_array_elements(r.limits::json) x
        LOOP
            IF e.n IS NULL THEN
                left_ready := left_ready + 1;
                CONTINUE each_row;
            END IF;
            level := CASE WHEN e.slots IS NULL
                THEN mainspring.refilled(states[e.n].level, states[e.n].since, now, e.rate, e.burst) END;
            room := CASE WHEN e.slots IS NULL THEN mainspring.tokens_in(level) > 0 ELSE states[e.n].running < e.slots END;
            IF NOT room THEN
                UPDATE mainspring.live l SET phase = -1, parked = keys[e.n], for_token = e.slots IS NULL WHERE l.id = one;
                IF e.slots IS NULL THEN
                    states[e.n].token_look := least(states[e.n].token_look, mainspring.next_look(level, now, e.rate));
                ELSE
                    states[e.n].slot_look := least(states[e.n].slot_look, mainspring.next_look(NULL, now, NULL));
                END IF;
                FOREACH n IN ARRAY passed LOOP
                    woken := woken || mainspring.wake(keys[abs(n)], n < 0, 1);
                END LOOP;
                CONTINUE each_row;
            END IF;
            passed := passed || CASE WHEN e.slots IS NULL THEN -e.n ELSE e.n END;
        END LOOP;
        IF r.staged THEN
            holder := mainspring.claim_staged(one, new_owner, until, now);
            IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = one AND l.phase <> 2) THEN
                blocked := blocked || one;
                holders := holders || holder;
                CONTINUE each_row;
            END IF;
        ELSE
            claimable := claimable || one;
        END IF;
        CONTINUE WHEN r.limits IS NULL;
        counted := '{}';
        FOR e IN
            SELECT array_position(keys, x->>'key') AS n, (x->>'rate')::double precision AS rate,
                (x->>'burst')::integer AS burst
            FROM json_array_elements(r.limits::json) x
        LOOP
            IF e.n <> ALL (counted) THEN
                states[e.n].running := states[e.n].running + 1;
                counted := counted || e.n;
            END IF;
            IF e.rate IS NOT NULL THEN
                states[e.n].level := mainspring.refilled(states[e.n].level, states[e.n].since, now, e.rate, e.burst) - 1;
                states[e.n].since := greatest(states[e.n].since, now);
                states[e.n].rate := e.rate;
                states[e.n].burst := e.burst;
            END IF;
        END LOOP;
    END LOOP;
    UPDATE mainspring.limit_state s SET
        running = x.running, level = x.level, since = x.since, rate = x.rate, burst = x.burst,
        slot_look = CASE WHEN x.slot_look IS NOT NULL AND mainspring.is_awaited(x.key, false) THEN x.slot_look END,
        token_look = CASE WHEN x.token_look IS NOT NULL AND mainspring.is_awaited(x.key, true) THEN x.token_look END
    FROM unnest(states) x WHERE s.key = x.key AND s IS DISTINCT FROM x;
END
$$;

-- --------------------------------------------------------------------------------------------- lanes

-- The first ready rows of a lane: those with a share by their tags.
CREATE FUNCTION mainspring.front(of_lane text, most integer) RETURNS TABLE (priority integer, tag bigint, id uuid)
LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT l.priority, l.tag, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane ORDER BY l.priority DESC, l.tag, l.id LIMIT most;
    ELSE
        RETURN QUERY SELECT l.priority, 0::bigint, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most;
    END IF;
END
$$;

-- The same, locked; those that somebody else has locked are left out.
CREATE FUNCTION mainspring.lock_front(of_lane text, most bigint) RETURNS TABLE (id uuid, nth bigint)
LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane
            ORDER BY l.priority DESC, l.tag, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    ELSE
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    END IF;
END
$$;

-- As `turns`: the lanes to take from, in order, once per row. Rows with limits take turns as if they were in the lane of
-- those without; those with a share have the turn after it.
CREATE FUNCTION mainspring.special_turns(lanes text[], wanted integer, turn integer) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH candidate AS (
            SELECT o.lane, o.seats_as, o.kind, c.priority, c.tag, c.id
            FROM (
                SELECT x.lane, split_part(x.lane, '/', 4) = 'fair' AS kind,
                    split_part(x.lane, '/', 1) || '/' || split_part(x.lane, '/', 2) COLLATE "C" AS seats_as
                FROM unnest(lanes) x (lane)
            ) o CROSS JOIN LATERAL mainspring.front(o.lane, wanted) c
        ), ranked AS (
            SELECT lane, priority, row_number() OVER (PARTITION BY priority, seats_as, kind ORDER BY tag, id) AS round,
                dense_rank() OVER (PARTITION BY priority ORDER BY seats_as, kind) - 1 AS seat
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

-- As `claim`, from lanes of every kind. `taken` is what was wanted when rows were made ready on the way.
CREATE FUNCTION mainspring.claim_special(
    lanes text[], new_owner text, until bigint, wanted integer, turn integer, now bigint,
    OUT claimed text, OUT blocked text, OUT taken integer, OUT woken uuid[], OUT contended boolean
) LANGUAGE plpgsql
    SET enable_nestloop = on
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    picked uuid[];
    claimable uuid[];
    judged record;
BEGIN
    IF cardinality(lanes) = 1 THEN
        SELECT array_agg(f.id ORDER BY f.nth) INTO picked FROM mainspring.lock_front(lanes[1], wanted) f;
    ELSE
        WITH seat AS MATERIALIZED (
            SELECT o.lane, o.n, row_number() OVER (PARTITION BY o.lane ORDER BY o.n) AS nth
            FROM unnest(mainspring.special_turns(lanes, wanted, turn)) WITH ORDINALITY o (lane, n)
        ), best AS MATERIALIZED (
            SELECT q.lane, f.id, f.nth
            FROM (SELECT s.lane, max(s.nth) AS rows FROM seat s GROUP BY s.lane) q
            CROSS JOIN LATERAL mainspring.lock_front(q.lane, q.rows) f
        )
        SELECT array_agg(b.id ORDER BY s.n) INTO picked FROM best b JOIN seat s ON s.lane = b.lane AND s.nth = b.nth;
    END IF;
    taken := coalesce(cardinality(picked), 0);
    contended := false;
    IF picked IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (picked) AND (l.staged OR l.limits IS NOT NULL)) THEN
        SELECT * INTO judged FROM mainspring.judge(picked, new_owner, until, now);
        claimable := judged.claimable;
        woken := judged.woken;
        contended := judged.left_ready > 0;
        taken := CASE WHEN woken IS NULL THEN taken - judged.left_ready ELSE wanted END;
        SELECT string_agg(
            '[' || mainspring.as_json(l) || ',' || coalesce(to_json(b.holder)::text, 'null') || ']', ',' ORDER BY b.n
        ) INTO blocked
        FROM unnest(judged.blocked, judged.holders) WITH ORDINALITY b (id, holder, n) JOIN mainspring.live l ON l.id = b.id;
    ELSE
        claimable := picked;
    END IF;
    UPDATE mainspring.live l SET
        phase = 2, token = l.token + 1, owner = new_owner, lease = until, claimed = now,
        started = coalesce(l.started, now), tag = NULL
    WHERE l.id = ANY (claimable);
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) INTO claimed
    FROM unnest(picked) WITH ORDINALITY p (id, n) JOIN mainspring.live l ON l.id = p.id
    WHERE l.phase = 2;
END
$$;

