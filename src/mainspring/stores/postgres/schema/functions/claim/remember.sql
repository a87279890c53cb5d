-- This connection has claimed everything in the lane and priority up to that row, or skipped it because another
-- transaction had it locked.
CREATE OR REPLACE FUNCTION mainspring.remember(since bigint, priority integer, last uuid, lane text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('mainspring.claimed_up_to', concat_ws(chr(30), since, priority, last, lane), false);
END
$$;
