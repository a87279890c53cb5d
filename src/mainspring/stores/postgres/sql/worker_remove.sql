WITH gone AS (DELETE FROM mainspring.worker WHERE id = $1::text RETURNING 1)
SELECT count(*) FROM gone
