-- The next wait line for a slot, or for a token, of this key; NULL after the last one.
CREATE OR REPLACE FUNCTION mainspring.next_line(of_key text, with_token boolean, after text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT l.line FROM mainspring.live l
        WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token AND l.line > after ORDER BY l.line LIMIT 1
    );
END
$$;
