-- Pending rows along indexes alone; few rows run. A row that is due, but not promoted yet, counts as ready.
WITH clock AS MATERIALIZED (SELECT mainspring.now_micros() AS now), counted AS (
    SELECT l.lane, count(*) AS ready, 0 AS planned, 0 AS parked, 0 AS running, min(l.due) AS oldest, NULL::bigint AS next_due
    FROM mainspring.live l WHERE l.phase = 1 GROUP BY l.lane
    UNION ALL
    SELECT l.lane, count(*), 0, 0, 0, min(l.due), NULL::bigint
    FROM mainspring.live l WHERE l.phase = 0 AND l.due <= (SELECT c.now FROM clock c) GROUP BY l.lane
    UNION ALL
    SELECT l.lane, 0, count(*), 0, 0, NULL::bigint, min(l.due)
    FROM mainspring.live l WHERE l.phase = 0 AND l.due > (SELECT c.now FROM clock c) GROUP BY l.lane
    UNION ALL
    SELECT split_part(l.line, ' ', 2), 0, 0, count(*), 0, NULL::bigint, NULL::bigint
    FROM mainspring.live l WHERE l.phase = -1 GROUP BY l.line
    UNION ALL
    SELECT l.lane, 0, 0, 0, count(*), NULL::bigint, NULL::bigint
    FROM mainspring.live l WHERE l.phase >= 2 AND l.phase = 2 GROUP BY l.lane
)
SELECT split_part(c.lane, '/', 1) COLLATE "C" AS queue, split_part(c.lane, '/', 2) COLLATE "C" AS handler,
    sum(c.ready)::bigint, sum(c.planned)::bigint, sum(c.parked)::bigint, sum(c.running)::bigint, min(c.oldest),
    min(c.next_due)
FROM counted c GROUP BY 1, 2 ORDER BY 1, 2
