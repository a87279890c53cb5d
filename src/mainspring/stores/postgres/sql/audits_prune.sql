WITH gone AS (
    DELETE FROM mainspring.audit WHERE id IN (
        SELECT a.id FROM mainspring.audit a WHERE a.id < $1::text ORDER BY a.id LIMIT $2::bigint FOR UPDATE SKIP LOCKED
    ) RETURNING 1
)
SELECT count(*) FROM gone
