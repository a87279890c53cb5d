-- Judges rows one by one, in this order, and claims those that have room under all of their limits and get their
-- running keys. A row without room is parked, and the room it had under earlier limits goes to others; so does the
-- room of a staged row whose key is held. A row whose limit key another transaction has locked stays ready:
-- `left_ready` counts them. `claimable` are rows for the caller to claim; `blocked` and `holders` are staged rows
-- whose keys were held.
CREATE OR REPLACE FUNCTION mainspring.judge(
    picked uuid[], new_owner text, stamp bigint, until bigint, now bigint, OUT claimable uuid[],
    OUT blocked uuid[], OUT holders uuid[], OUT woken uuid[], OUT left_ready integer
) LANGUAGE plpgsql AS $$
DECLARE
    -- per key that was locked
    keys text[]; used integer[]; levels double precision[]; sinces bigint[]; rates double precision[]; bursts integer[];
    slot_looks bigint[]; token_looks bigint[];
    -- per limit of one row; rows next to each other nearly always have the same
    read text := ''; ns integer[]; slots integer[]; its_rates double precision[]; its_bursts integer[]; numbers text[];
    -- rows to park, together as long as no row is woken
    parked uuid[] := '{}'; parked_keys text[] := '{}'; parked_kinds boolean[] := '{}'; parked_numbers text[] := '{}';
    -- how many of the first limits of a row have room that it cannot use
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
            holder := mainspring.claim_staged(r.id, new_owner, stamp, until, now);
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
            IF array_position(ns, n) = i THEN  -- once per key, whatever kinds of limits name it
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
