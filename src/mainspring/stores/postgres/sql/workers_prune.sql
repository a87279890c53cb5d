WITH gone AS (DELETE FROM mainspring.worker WHERE seen < mainspring.now_micros() - $1::bigint RETURNING 1),
over AS (DELETE FROM mainspring.lock WHERE expires <= mainspring.now_micros())
SELECT count(*) FROM gone
