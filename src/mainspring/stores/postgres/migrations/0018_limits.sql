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
    -- of each key that was locked
    keys text[]; used integer[]; levels double precision[]; sinces bigint[]; rates double precision[]; bursts integer[];
    slot_looks bigint[]; token_looks bigint[];
    -- of the limits of one row, which are nearly always those of the row before
    read text := ''; ns integer[]; slots integer[]; its_rates double precision[]; its_bursts integer[];
    -- rows to be parked, together as long as nobody is woken
    parked uuid[] := '{}'; parked_keys text[] := '{}'; parked_kinds boolean[] := '{}';
    r record;
    n integer;
    level double precision;
    holder uuid;
BEGIN
    SELECT array_agg(s.key), array_agg(s.running), array_agg(s.level), array_agg(s.since), array_agg(s.rate),
        array_agg(s.burst), array_agg(s.slot_look), array_agg(s.token_look)
    INTO keys, used, levels, sinces, rates, bursts, slot_looks, token_looks
    FROM unnest(mainspring.hold_keys(ARRAY(
        SELECT DISTINCT l.limits FROM mainspring.live l WHERE l.id = ANY (picked) AND l.limits IS NOT NULL
    ))) s;
    left_ready := 0;
    <<each_row>>
    FOR r IN
        SELECT l.id, l.limits, l.staged FROM unnest(picked) WITH ORDINALITY p (id, n)
        JOIN mainspring.live l ON l.id = p.id ORDER BY p.n
    LOOP
        IF r.limits IS DISTINCT FROM read THEN
            read := r.limits;
            SELECT coalesce(array_agg(coalesce(array_position(keys, x->>'key'), 0)), '{}'),
                array_agg((x->>'concurrency')::integer), array_agg((x->>'rate')::double precision),
                array_agg((x->>'burst')::integer)
            INTO ns, slots, its_rates, its_bursts FROM json_array_elements(read::json) x;
        END IF;
        FOR i IN 1 .. cardinality(ns) LOOP
            n := ns[i];
            IF n = 0 THEN
                left_ready := left_ready + 1;
                CONTINUE each_row;
            END IF;
            IF slots[i] IS NOT NULL THEN
                CONTINUE WHEN used[n] < slots[i];
                slot_looks[n] := least(slot_looks[n], now + 5000000);
            ELSE
                level := mainspring.refilled(levels[n], sinces[n], now, its_rates[i], its_bursts[i]);
                CONTINUE WHEN mainspring.tokens_in(level) > 0;
                token_looks[n] := least(token_looks[n], mainspring.next_look(level, now, its_rates[i]));
            END IF;
            parked := parked || r.id;
            parked_keys := parked_keys || keys[n];
            parked_kinds := parked_kinds || (slots[i] IS NULL);
            IF i > 1 THEN
                PERFORM mainspring.park(parked, parked_keys, parked_kinds);
                parked := '{}'; parked_keys := '{}'; parked_kinds := '{}';
                FOR j IN 1 .. i - 1 LOOP
                    woken := woken || mainspring.wake(keys[ns[j]], slots[j] IS NULL, 1);
                END LOOP;
            END IF;
            CONTINUE each_row;
        END LOOP;
        IF r.staged THEN
            holder := mainspring.claim_staged(r.id, new_owner, until, now);
            IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id AND greatest(l.phase, 0::smallint) <> 2) THEN
                blocked := blocked || r.id;
                holders := holders || holder;
                CONTINUE each_row;
            END IF;
        ELSE
            claimable := claimable || r.id;
        END IF;
        FOR i IN 1 .. cardinality(ns) LOOP
            n := ns[i];
            IF array_position(ns, n) = i THEN  -- once for a key, whatever kinds of limits name it
                used[n] := used[n] + 1;
            END IF;
            IF slots[i] IS NULL THEN
                levels[n] := mainspring.refilled(levels[n], sinces[n], now, its_rates[i], its_bursts[i]) - 1;
                sinces[n] := greatest(sinces[n], now);
                rates[n] := its_rates[i];
                bursts[n] := its_bursts[i];
            END IF;
        END LOOP;
    END LOOP;
    IF parked <> '{}' THEN
        PERFORM mainspring.park(parked, parked_keys, parked_kinds);
    END IF;
    UPDATE mainspring.limit_state s SET
        running = x.running, level = x.level, since = x.since, rate = x.rate, burst = x.burst,
        slot_look = CASE WHEN x.slot_look IS NOT NULL AND mainspring.is_awaited(x.key, false) THEN x.slot_look END,
        token_look = CASE WHEN x.token_look IS NOT NULL AND mainspring.is_awaited(x.key, true) THEN x.token_look END
    FROM unnest(keys, used, levels, sinces, rates, bursts, slot_looks, token_looks)
        x (key, running, level, since, rate, burst, slot_look, token_look)
    WHERE s.key = x.key;
END
$$;

CREATE FUNCTION mainspring.park(ids uuid[], keys text[], kinds boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE mainspring.live l SET phase = -1, parked = x.key, for_token = x.kind
    FROM unnest(ids, keys, kinds) x (id, key, kind) WHERE l.id = x.id;
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
    WHERE greatest(l.phase, 0::smallint) = 2;
END
$$;

