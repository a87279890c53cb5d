WITH gone AS (DELETE FROM mainspring.worker WHERE seen < mainspring.now_micros() - $1::bigint RETURNING 1)
SELECT count(*) FROM gone
