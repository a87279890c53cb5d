-- All along live_tenant alone; few of them run.
WITH everything AS (
    SELECT l.tenant, count(*) AS live FROM mainspring.live l WHERE l.tenant IS NOT NULL GROUP BY l.tenant
), active AS (
    SELECT l.tenant, count(*) AS active, count(*) FILTER (WHERE l.phase = 2) AS running
    FROM mainspring.live l WHERE l.phase >= 2 AND l.tenant IS NOT NULL GROUP BY l.tenant
)
SELECT c.tenant, c.pending, c.running
FROM (
    SELECT e.tenant, e.live - coalesce(a.active, 0) AS pending, coalesce(a.running, 0) AS running
    FROM everything e LEFT JOIN active a ON a.tenant = e.tenant
) c
WHERE c.pending + c.running > 0
ORDER BY c.pending + c.running DESC, c.tenant
LIMIT $1::bigint
