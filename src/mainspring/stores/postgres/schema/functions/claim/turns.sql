-- The lanes to claim from, in order, once per row: highest priority first, lanes in turns within a priority. Rows are
-- counted without locks; the claim then locks the best rows of each lane that are not locked.
CREATE OR REPLACE FUNCTION mainspring.turns(lanes text[], wanted integer, turn integer) RETURNS text[] LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
    WITH candidate AS (
        SELECT o.lane, c.priority, c.id
        FROM unnest(lanes) o (lane)
        CROSS JOIN LATERAL (
            SELECT l.priority, l.id FROM mainspring.live l
            WHERE l.phase = 1 AND l.lane = o.lane ORDER BY l.priority DESC, l.id LIMIT wanted
        ) c
    ), ranked AS (
        SELECT lane, priority, row_number() OVER (PARTITION BY priority, lane ORDER BY id) AS round,
               dense_rank() OVER (PARTITION BY priority ORDER BY lane COLLATE "C") - 1 AS seat
        FROM candidate
    ), seated AS (
        SELECT lane, priority, round, seat, max(seat) OVER (PARTITION BY priority) + 1 AS seats FROM ranked
    ), chosen AS (
        SELECT lane, row_number() OVER (ORDER BY priority DESC, round, (seat - turn % seats + seats) % seats) AS n
        FROM seated
    )
    SELECT array_agg(lane ORDER BY n) FROM chosen WHERE n <= wanted
    );
END
$$;
