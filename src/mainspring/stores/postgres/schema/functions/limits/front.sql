-- The first ready rows of a lane: those with a share in the order of their tags.
CREATE OR REPLACE FUNCTION mainspring.front(of_lane text, most integer)
RETURNS TABLE (priority integer, tag bigint, id uuid)
LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF split_part(of_lane, '/', 4) = 'fair' THEN
        RETURN QUERY SELECT l.priority, l.tag, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = of_lane ORDER BY l.priority DESC, l.tag, l.id LIMIT most;
    ELSE
        RETURN QUERY SELECT l.priority, 0::bigint, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = of_lane ORDER BY l.priority DESC, l.id LIMIT most;
    END IF;
END
$$;
