-- The lanes to claim from, in order, once per row, as `turns` does. Rows with limits take turns as if they were in the
-- lane without limits; the lane of rows with a share has the turn after it.
CREATE OR REPLACE FUNCTION mainspring.limited_turns(lanes text[], wanted integer, turn integer) RETURNS text[]
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (
        WITH candidate AS (
            SELECT o.lane, o.seats_as, o.kind, c.priority, c.tag, c.id
            FROM (
                SELECT x.lane, split_part(x.lane, '/', 4) = 'fair' AS kind,
                    split_part(x.lane, '/', 1) || '/' || split_part(x.lane, '/', 2) COLLATE "C" AS seats_as
                FROM unnest(lanes) x (lane)
            ) o CROSS JOIN LATERAL mainspring.front(o.lane, wanted) c
        ), ranked AS (
            SELECT lane, priority, row_number() OVER (PARTITION BY priority, seats_as, kind ORDER BY tag, id) AS round,
                dense_rank() OVER (PARTITION BY priority ORDER BY seats_as, kind) - 1 AS seat
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
