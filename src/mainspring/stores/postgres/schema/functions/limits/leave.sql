-- Running rows with these limits have left their slots; rows that were parked, or woken, under these keys have
-- changed. Wakes rows under those keys and returns them. Every transaction that waits for keys locks them in the same
-- order, so a row that is parked at this moment is parked before or after, and one of the two transactions sees it.
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
