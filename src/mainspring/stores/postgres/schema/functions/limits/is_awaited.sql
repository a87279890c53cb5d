-- Whether rows wait for a slot, or for a token, of this key.
CREATE OR REPLACE FUNCTION mainspring.is_awaited(of_key text, with_token boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM mainspring.live l WHERE l.phase = -1 AND l.parked = of_key AND l.for_token = with_token);
END
$$;
