-- When the next look is due: at once, if it lies further ahead than any look is ever scheduled, because then the clock
-- was set back.
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
