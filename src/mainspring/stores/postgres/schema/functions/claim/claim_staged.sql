-- A staged row trades its keys for the running ones; when one of those is held, the row is deferred by 5 s. Returns
-- the holder, NULL when the row was claimed. The holder stays locked until the deferral is committed, so that its
-- ending finds the waiting row; if the holder is just being settled, or an open transaction is about to take the key,
-- the row is tried again very soon.
CREATE OR REPLACE FUNCTION mainspring.claim_staged(
    wanted uuid, new_owner text, stamp bigint, until bigint, now bigint, OUT holder uuid
)
LANGUAGE plpgsql
    SET lock_timeout = '20ms'
AS $$
DECLARE
    delay bigint := 5000000;
    r mainspring.live;
BEGIN
    BEGIN
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now), unique_key = l.running_unique_key,
            overlap_key = l.running_overlap_key, staged = false, tag = NULL
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
