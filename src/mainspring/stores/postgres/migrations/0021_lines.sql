-- Parked rows stand in lines, and shares take turns in them.

-- `line` is the numbers of the limit and the lane, `place` the turn of a share there. With `parked` and `for_token` they stay
-- with a row that was woken until it is claimed or changed: parked again in the same line, it has the place it had. Rows
-- parked before are judged anew.
ALTER TABLE mainspring.live ADD COLUMN line text COLLATE "C", ADD COLUMN place bigint;

UPDATE mainspring.live SET phase = 1, parked = NULL, for_token = NULL WHERE phase = -1;
UPDATE mainspring.limit_state SET slot_look = NULL, token_look = NULL;

DROP INDEX mainspring.live_parked;
CREATE INDEX live_parked ON mainspring.live (parked, for_token, line, priority DESC, place, id) WHERE phase = -1;
CREATE INDEX live_place ON mainspring.live (parked, for_token, line, priority, share, place DESC)
    WHERE phase = -1 AND share IS NOT NULL;

DROP FUNCTION mainspring.wake(text, boolean, bigint);
DROP FUNCTION mainspring.first_parked(text, boolean);
DROP FUNCTION mainspring.park(uuid[], text[], boolean[]);

CREATE OR REPLACE FUNCTION mainspring.as_json(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        CASE r.phase WHEN 2 THEN ',"state":"running"' WHEN 3 THEN ',"state":"waiting"' END,
        mainspring.field('owner', r.owner), mainspring.field('lease', r.lease),
        mainspring.field('claimed', r.claimed), mainspring.field('started', r.started),
        mainspring.field('parked', CASE r.phase WHEN -1 THEN r.parked END), mainspring.rest_of(r)
    )
$$;

CREATE OR REPLACE FUNCTION mainspring.is_awaited(of_key text, with_token boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM mainspring.live l WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token);
END
$$;

-- --------------------------------------------------------------------------------------------- waking

-- The next line of those that wait for a slot, or for a token, of this key; NULL after the last one.
CREATE FUNCTION mainspring.next_line(of_key text, with_token boolean, after text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT l.line FROM mainspring.live l
        WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token AND l.line > after ORDER BY l.line LIMIT 1
    );
END
$$;

-- What a bucket holds by the numbers of a line.
CREATE FUNCTION mainspring.level_by(line text, level double precision, since bigint, now bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT mainspring.refilled(
        level, since, now, split_part(line, '/', 1)::double precision, split_part(split_part(line, ' ', 1), '/', 2)::integer
    )
$$;

-- Of each line the first rows are ready again: `most`, but no more than there is room for by its numbers when so many slots
-- are `used`, or the bucket held this much; NULL stands for as many as there is room for. Those with a share come to be
-- promoted, and get their tags then. Whoever calls this has locked the key; a row that somebody else has locked is about
-- to end.
CREATE FUNCTION mainspring.wake(
    of_key text, with_token boolean, most bigint, used integer, level double precision, since bigint, now bigint
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, with_token, '');
    room bigint;
    ids uuid[];
    woken uuid[];
BEGIN
    WHILE this_line IS NOT NULL LOOP
        IF with_token THEN
            room := least(most, mainspring.tokens_in(mainspring.level_by(this_line, level, since, now)));
        ELSE
            room := least(most, split_part(this_line, ' ', 1)::integer - used);
        END IF;
        IF room > 0 THEN
            WITH ready AS (
                UPDATE mainspring.live l SET
                    phase = CASE WHEN l.share IS NULL THEN 1 ELSE 0 END,
                    due = CASE WHEN l.share IS NULL THEN l.due ELSE least(l.due, now) END
                WHERE l.ctid = ANY (ARRAY(
                    SELECT p.ctid FROM mainspring.live p
                    WHERE p.phase = -1 AND p.parked = of_key AND p.for_token = with_token AND p.line = this_line
                    ORDER BY p.priority DESC, p.place, p.id LIMIT room
                    FOR UPDATE SKIP LOCKED
                ))
                RETURNING l.id
            )
            SELECT array_agg(r.id) INTO ids FROM ready r;
            woken := woken || ids;
        END IF;
        this_line := mainspring.next_line(of_key, with_token, this_line);
    END LOOP;
    RETURN woken;
END
$$;

-- When those who wait for a token are to be looked at again, after a look has woken as many as there were tokens.
CREATE FUNCTION mainspring.next_token_look(of_key text, level double precision, since bigint, now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, true, '');
    held double precision;
    look bigint;
BEGIN
    WHILE this_line IS NOT NULL LOOP
        held := mainspring.level_by(this_line, level, since, now);
        look := least(look, mainspring.next_look(
            held - mainspring.tokens_in(held), now, split_part(this_line, '/', 1)::double precision
        ));
        this_line := mainspring.next_line(of_key, true, this_line);
    END LOOP;
    RETURN look;
END
$$;

-- When the next look is due: at once, if it lies further ahead than any look is put off, so that the clock must have been
-- set back.
CREATE OR REPLACE FUNCTION mainspring.first_look() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    look bigint := (
        SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
        WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
    );
BEGIN
    RETURN CASE WHEN look > mainspring.now_micros() + 5000000 THEN 0 ELSE look END;
END
$$;

-- Keys whose look has come: of each line as many rows are ready again as there is room for by its numbers. Keys that
-- somebody else has locked are being looked at. Looks from before the clock was set back are due, and a bucket that is
-- counted from an instant yet to come fills up from now on.
CREATE OR REPLACE FUNCTION mainspring.look(now bigint) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    s mainspring.limit_state;
    woken uuid[];
BEGIN
    FOR s IN
        SELECT l.* FROM mainspring.limit_state l
        WHERE l.ctid = ANY (ARRAY(
            SELECT e.ctid FROM mainspring.limit_state e
            WHERE (e.slot_look IS NOT NULL OR e.token_look IS NOT NULL) AND least(e.slot_look, e.token_look) <= now
            ORDER BY least(e.slot_look, e.token_look) LIMIT 100
        ) || ARRAY(
            SELECT e.ctid FROM mainspring.limit_state e
            WHERE (e.slot_look IS NOT NULL OR e.token_look IS NOT NULL) AND least(e.slot_look, e.token_look) > now + 5000000
            LIMIT 100
        ))
        FOR UPDATE SKIP LOCKED
    LOOP
        IF s.slot_look <= now OR s.slot_look > now + 5000000 THEN
            woken := woken || mainspring.wake(s.key, false, NULL, s.running, NULL, NULL, now);
            s.slot_look := CASE WHEN mainspring.is_awaited(s.key, false) THEN now + 5000000 END;
        END IF;
        IF s.token_look <= now OR s.token_look > now + 5000000 THEN
            s.since := CASE WHEN s.since > now THEN now ELSE s.since END;
            woken := woken || mainspring.wake(s.key, true, NULL, NULL, s.level, s.since, now);
            s.token_look := mainspring.next_token_look(s.key, s.level, s.since, now);
        END IF;
        UPDATE mainspring.limit_state l SET slot_look = s.slot_look, token_look = s.token_look, since = s.since
        WHERE l.key = s.key;
    END LOOP;
    RETURN woken;
END
$$;

-- Running rows with these limits have left their slots; rows that were parked, or woken, under these keys have been
-- changed: those keys are looked at next. Returns the rows that are ready for it. Keys are locked in their order, by all
-- who wait for them: a row that is parked at this instant is parked before or after, and in either case seen by one of
-- the two.
CREATE OR REPLACE FUNCTION mainspring.leave(left_limits text[], left_keys text[]) RETURNS uuid[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_nestloop = on
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    s record;
    woken uuid[];
    at_once CONSTANT bigint := 0;
BEGIN
    FOR s IN
        SELECT l.key, l.running, l.slot_look, l.token_look, k.times, k.changed
        FROM (
            SELECT x.key, sum(x.times)::integer AS times, bool_or(x.times = 0) AS changed
            FROM (
                SELECT i.key, i.times FROM mainspring.keys_in(left_limits) i
                UNION ALL
                SELECT u.key, 0 FROM unnest(left_keys) u (key)
            ) x
            GROUP BY x.key
        ) k JOIN mainspring.limit_state l ON l.key = k.key
        ORDER BY l.key FOR UPDATE OF l
    LOOP
        IF s.slot_look IS NOT NULL AND s.times > 0 THEN
            woken := woken || mainspring.wake(
                s.key, false, s.times, greatest(s.running - s.times, 0), NULL, NULL, mainspring.now_micros()
            );
        END IF;
        IF s.changed THEN
            s.slot_look := CASE WHEN s.slot_look IS NOT NULL THEN at_once END;
            s.token_look := CASE WHEN s.token_look IS NOT NULL THEN at_once END;
        END IF;
        UPDATE mainspring.limit_state l SET
            running = greatest(l.running - s.times, 0),
            slot_look = CASE WHEN s.slot_look IS NOT NULL AND mainspring.is_awaited(s.key, false) THEN s.slot_look END,
            token_look = CASE WHEN s.token_look IS NOT NULL AND mainspring.is_awaited(s.key, true) THEN s.token_look END
        WHERE l.key = s.key;
    END LOOP;
    RETURN woken;
END
$$;

-- When some changes end rows and others do not, all rows are locked first, in the order of their ids. Keys of limits are
-- locked last.
CREATE OR REPLACE FUNCTION mainspring.settle(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[],
    OUT woken uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    left_limits text[];
    left_keys text[];
    waited uuid[];
    waited_keys text[];
    lasting record;
BEGIN
    IF batch.flags IS NOT NULL THEN
        SELECT array_agg(x.id) FILTER (WHERE x.parked IS NOT NULL), array_agg(x.parked) FILTER (WHERE x.parked IS NOT NULL)
        INTO waited, waited_keys
        FROM (SELECT l.id, l.parked FROM mainspring.live l WHERE l.id = ANY (batch.ids) ORDER BY l.id FOR UPDATE) x;
    END IF;
    SELECT s.applied, s.freed, s.fair, s.left_limits, s.left_keys INTO applied, freed, fair, left_limits, left_keys
    FROM mainspring.settle_final(batch, now) s;
    IF batch.flags IS NOT NULL THEN
        SELECT * INTO lasting FROM mainspring.settle_live(batch, now);
        applied := applied || lasting.applied;
        fair := fair || lasting.fair;
        left_limits := left_limits || lasting.left_limits;
        IF waited IS NOT NULL THEN
            SELECT left_keys || array_agg(w.key) INTO left_keys FROM unnest(waited, waited_keys) w (id, key)
            WHERE EXISTS (SELECT FROM unnest(applied) a (n) WHERE batch.ids[a.n] = w.id);
        END IF;
    END IF;
    IF left_limits IS NOT NULL OR left_keys IS NOT NULL THEN
        woken := mainspring.leave(left_limits, left_keys);
    END IF;
    IF batch.audits IS NOT NULL THEN
        PERFORM mainspring.write_audits((
            SELECT json_agg(a.audit) FROM json_array_elements(batch.audits) WITH ORDINALITY a (audit, n)
            WHERE a.n = ANY (applied) AND json_typeof(a.audit) = 'object'
        ));
    END IF;
END
$$;

-- --------------------------------------------------------------------------------------------- parking

-- These rows, one after another, in the order given: each place follows from those before.
CREATE FUNCTION mainspring.park(ids uuid[], keys text[], kinds boolean[], numbers text[]) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    r record;
BEGIN
    UPDATE mainspring.live l SET
        phase = -1, parked = x.key, for_token = x.kind, line = x.numbers || ' ' || l.lane, place = 0
    FROM unnest(ids, keys, kinds, numbers) x (id, key, kind, numbers) WHERE l.id = x.id AND l.share IS NULL;
    FOR r IN
        SELECT l.id, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step, x.key, x.kind,
            x.numbers || ' ' || l.lane AS line,
            CASE WHEN (l.parked, l.for_token, l.line) = (x.key, x.kind, x.numbers || ' ' || l.lane) THEN l.place END AS place
        FROM unnest(ids, keys, kinds, numbers) WITH ORDINALITY x (id, key, kind, numbers, n)
        JOIN mainspring.live l ON l.id = x.id WHERE l.share IS NOT NULL ORDER BY x.n
    LOOP
        IF r.place IS NULL THEN
            r.place := greatest(coalesce((
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority
                ORDER BY l.place LIMIT 1
            ), 0), r.step + (
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority AND l.share = r.share
                ORDER BY l.place DESC LIMIT 1
            ));
        END IF;
        UPDATE mainspring.live l SET
            phase = -1, parked = r.key, for_token = r.kind, line = r.line, place = r.place, tag = NULL
        WHERE l.id = r.id;
    END LOOP;
END
$$;

-- Judges rows one by one, in this order, and claims those that have room under all of their limits and get the keys they
-- trade theirs for. A row without room is parked and passes on the room it had under the limits before that one; a staged
-- one whose key is held passes on all it had. A row whose key somebody else has locked stays as it is: `left_ready` of
-- them. `claimable` are rows that the caller is to claim; `blocked` and `holders` staged ones that could not be.
CREATE OR REPLACE FUNCTION mainspring.judge(
    picked uuid[], new_owner text, until bigint, now bigint, OUT claimable uuid[], OUT blocked uuid[], OUT holders uuid[],
    OUT woken uuid[], OUT left_ready integer
) LANGUAGE plpgsql AS $$
DECLARE
    -- of each key that was locked
    keys text[]; used integer[]; levels double precision[]; sinces bigint[]; rates double precision[]; bursts integer[];
    slot_looks bigint[]; token_looks bigint[];
    -- of the limits of one row, which are nearly always those of the row before
    read text := ''; ns integer[]; slots integer[]; its_rates double precision[]; its_bursts integer[]; numbers text[];
    -- rows to be parked, together as long as nobody is woken
    parked uuid[] := '{}'; parked_keys text[] := '{}'; parked_kinds boolean[] := '{}'; parked_numbers text[] := '{}';
    -- how many of the limits of a row, the first ones, have room that it cannot use
    unused integer;
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
                array_agg((x->>'burst')::integer),
                array_agg(coalesce(x->>'concurrency', (x->>'rate') || '/' || (x->>'burst')))
            INTO ns, slots, its_rates, its_bursts, numbers FROM json_array_elements(read::json) x;
        END IF;
        unused := 0;
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
            parked_numbers := parked_numbers || numbers[i];
            unused := i - 1;
            CONTINUE each_row WHEN unused = 0;
            EXIT;
        END LOOP;
        IF unused = 0 AND r.staged THEN
            holder := mainspring.claim_staged(r.id, new_owner, until, now);
            IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id AND greatest(l.phase, 0::smallint) <> 2) THEN
                blocked := blocked || r.id;
                holders := holders || holder;
                unused := cardinality(ns);
                CONTINUE each_row WHEN unused = 0;
            ELSE
                UPDATE mainspring.live l SET parked = NULL, for_token = NULL, line = NULL, place = NULL
                WHERE l.id = r.id AND l.parked IS NOT NULL;
            END IF;
        ELSIF unused = 0 THEN
            claimable := claimable || r.id;
        END IF;
        IF unused > 0 THEN
            IF parked <> '{}' THEN
                PERFORM mainspring.park(parked, parked_keys, parked_kinds, parked_numbers);
                parked := '{}'; parked_keys := '{}'; parked_kinds := '{}'; parked_numbers := '{}';
            END IF;
            FOR j IN 1 .. unused LOOP
                n := ns[j];
                woken := woken || mainspring.wake(keys[n], slots[j] IS NULL, 1, used[n], levels[n], sinces[n], now);
            END LOOP;
            CONTINUE each_row;
        END IF;
        FOR i IN 1 .. cardinality(ns) LOOP
            n := ns[i];
            IF array_position(ns, n) = i THEN  -- once for a key, whatever kinds of limits name it
                used[n] := used[n] + 1;
            END IF;
            IF slots[i] IS NULL THEN
                levels[n] := mainspring.refilled(levels[n], sinces[n], now, its_rates[i], its_bursts[i]) - 1;
                sinces[n] := now;
                rates[n] := its_rates[i];
                bursts[n] := its_bursts[i];
            END IF;
        END LOOP;
    END LOOP;
    IF parked <> '{}' THEN
        PERFORM mainspring.park(parked, parked_keys, parked_kinds, parked_numbers);
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

-- As `claim`, from lanes of every kind. `taken` is what was wanted when rows were made ready on the way.
CREATE OR REPLACE FUNCTION mainspring.claim_special(
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
        started = coalesce(l.started, now), tag = NULL, parked = NULL, for_token = NULL, line = NULL, place = NULL
    WHERE l.id = ANY (claimable);
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) INTO claimed
    FROM unnest(picked) WITH ORDINALITY p (id, n) JOIN mainspring.live l ON l.id = p.id
    WHERE greatest(l.phase, 0::smallint) = 2;
    IF woken IS NOT NULL THEN
        UPDATE mainspring.live l SET phase = 1 WHERE l.id = ANY (woken) AND l.share IS NOT NULL;
        PERFORM mainspring.give_tags(woken);
    END IF;
END
$$;

-- --------------------------------------------------------------------------------------------- keys

-- The key of a limit with its places filled in for one request: see core.rules.limits.
CREATE OR REPLACE FUNCTION mainspring.filled(key text, tenant text, job text, queue text, params json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place text;
    value text;
BEGIN
    FOR place IN SELECT DISTINCT m[1] FROM regexp_matches(key, '\{([^{}]*)\}', 'g') m LOOP
        value := CASE place WHEN 'tenant' THEN tenant WHEN 'job' THEN job WHEN 'queue' THEN queue
                            ELSE params->>regexp_replace(place, '^params\.', '') END;
        value := left(regexp_replace(coalesce(nullif(value, ''), '-'), '[[:cntrl:]]', '?', 'g'), 200);
        key := replace(key, '{' || place || '}', value);
    END LOOP;
    RETURN left(key, 400);
END
$$;
