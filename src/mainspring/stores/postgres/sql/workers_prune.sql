WITH gone AS (DELETE FROM mainspring.worker WHERE seen < mainspring.now_micros() - $1::bigint RETURNING 1),
over AS (DELETE FROM mainspring.lock WHERE expires <= mainspring.now_micros()),
unused AS (
    DELETE FROM mainspring.limit_state s WHERE s.key IN (
        SELECT u.key FROM mainspring.limit_state u
        WHERE u.running = 0 AND u.slot_look IS NULL AND u.token_look IS NULL
            AND mainspring.refilled(u.level, u.since, mainspring.now_micros(), u.rate, u.burst) IS NOT DISTINCT
                FROM u.burst
        FOR UPDATE SKIP LOCKED
    )
)
SELECT count(*) FROM gone
