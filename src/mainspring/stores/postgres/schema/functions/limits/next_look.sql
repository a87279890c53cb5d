-- When rows that wait for a slot (no rate), or for a token, are looked at again.
CREATE OR REPLACE FUNCTION mainspring.next_look(level double precision, now bigint, rate double precision)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT now + least(5000000, ceil(greatest(0, 1 - level) * 1000000 / rate))::bigint
$$;
