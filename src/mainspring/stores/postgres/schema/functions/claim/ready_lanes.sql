-- Lanes with ready rows of these handlers and queues: a loose index scan, one seek per lane, however many rows it has.
CREATE OR REPLACE FUNCTION mainspring.ready_lanes(handlers text[], queues text[]) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1)
        FROM found WHERE found.lane IS NOT NULL
    )
    SELECT array_agg(lane) FROM found
    WHERE split_part(lane, '/', 2) = ANY (handlers) AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;
