-- The first ready rows of a lane, locked; rows that another transaction has locked are skipped.
CREATE OR REPLACE FUNCTION mainspring.lock_front(of_lane text, most bigint) RETURNS TABLE (id uuid, nth bigint)
LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane
            ORDER BY l.priority DESC, l.tag, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    ELSE
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most FOR UPDATE SKIP LOCKED
        ) x;
    END IF;
END
$$;
