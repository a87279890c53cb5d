-- The cancelled jobs that have executions running. Nearly always there is none, and one probe of an empty index shows
-- it. A function, because a query sees the database as it was when it began, and this must be read after the claim.
-- Jobs that run are found by skipping along their index, so that neither many cancelled jobs nor many running rows are
-- scanned.
CREATE OR REPLACE FUNCTION mainspring.stopped_jobs() RETURNS text[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.job_list l WHERE l.cancelled) THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE running (key) AS (
            (SELECT l.job_key FROM mainspring.live l WHERE l.phase >= 2 ORDER BY l.job_key LIMIT 1)
            UNION ALL
            SELECT (
                SELECT l.job_key FROM mainspring.live l WHERE l.phase >= 2
                    AND l.job_key > r.key ORDER BY l.job_key LIMIT 1
            )
            FROM running r WHERE r.key IS NOT NULL
        )
        SELECT array_agg(i.job_id)
        FROM running r
        JOIN mainspring.job_list l ON l.job_key = r.key AND l.cancelled
        JOIN mainspring.incarnation i ON i.key = r.key
    );
END
$$;
