-- Locks the keys of these limits, except those that another transaction has locked. It never waits, because a claim
-- may have locked other keys when it settled.
CREATE OR REPLACE FUNCTION mainspring.hold_keys(all_limits text[]) RETURNS mainspring.limit_state[]
LANGUAGE plpgsql AS $$
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
