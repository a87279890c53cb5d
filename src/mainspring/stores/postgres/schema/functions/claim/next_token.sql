-- The token of the next claim: the number of claims, followed by 32 bits that are the stamp of this one.
CREATE OR REPLACE FUNCTION mainspring.next_token(token bigint, stamp bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT (((token >> 32) + 1) << 32) | stamp $$;
