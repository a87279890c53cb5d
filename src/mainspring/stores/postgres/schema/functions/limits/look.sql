-- Keys whose look is due: in each wait line as many rows become ready as its numbers allow. Keys that another
-- transaction has locked are being looked at. Looks scheduled before the clock was set back are due, and a bucket
-- counted from a future instant fills up from now on.
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
            WHERE (e.slot_look IS NOT NULL OR e.token_look IS NOT NULL)
                AND least(e.slot_look, e.token_look) > now + 5000000
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
