-- Rows with a share or limits that were just added: ready ones get their tag, running ones take their slots.
CREATE OR REPLACE FUNCTION mainspring.enter_limited(added uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held text[];
BEGIN
    PERFORM mainspring.give_tags(added);
    SELECT array_agg(l.limits) INTO held
    FROM mainspring.live l WHERE l.id = ANY (added) AND greatest(l.phase, 0::smallint) = 2 AND l.limits IS NOT NULL;
    IF held IS NOT NULL THEN
        INSERT INTO mainspring.limit_state AS s (key, running) SELECT k.key, k.times FROM mainspring.keys_in(held) k
        ON CONFLICT (key) DO UPDATE SET running = s.running + excluded.running;
    END IF;
END
$$;
