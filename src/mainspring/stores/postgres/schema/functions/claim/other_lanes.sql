-- Lanes with ready rows of these handlers and queues, except one, whose index entries are skipped over.
CREATE OR REPLACE FUNCTION mainspring.other_lanes(handlers text[], queues text[], but text) RETURNS text[]
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE found (lane) AS (
            SELECT coalesce((
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but)
            UNION ALL
            SELECT CASE WHEN found.lane < but THEN coalesce((
                SELECT l.lane FROM mainspring.live l
                WHERE l.phase = 1 AND l.lane > found.lane AND l.lane < but ORDER BY l.lane LIMIT 1
            ), but) ELSE (
                SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 AND l.lane > found.lane ORDER BY l.lane LIMIT 1
            ) END
            FROM found WHERE found.lane IS NOT NULL
        )
        SELECT array_agg(lane) FROM found
        WHERE lane <> but AND split_part(lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(lane, '/', 1) = ANY (queues))
    );
END
$$;
