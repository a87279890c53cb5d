-- Jobs that are due, earliest first, each with the store's now and the time of the first job that is not due yet.
-- There is always one row. A function because of its settings: otherwise each limit would be planned separately.
CREATE OR REPLACE FUNCTION mainspring.due_jobs(most bigint) RETURNS TABLE (
    now bigint, upcoming bigint, due bigint, name text, id text, version bigint, origin text, declared text,
    overrides text, release text, next_run bigint, last_tick bigint, anchor bigint, paused bigint, paused_by text,
    pause_note text, resume bigint, cancelled bigint, sweep boolean, created bigint, updated bigint, last_number bigint
) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    now := mainspring.now_micros();
    upcoming := (SELECT j.due FROM mainspring.job j WHERE j.due > now ORDER BY j.due LIMIT 1);
    RETURN QUERY
        SELECT now, upcoming, j.due, j.name, j.id, j.version, j.origin, j.declared, j.overrides, j.release, j.next_run,
            j.last_tick, j.anchor, j.paused, j.paused_by, j.pause_note, j.resume, j.cancelled, j.sweep, j.created,
            j.updated,
            coalesce((SELECT i.last_number FROM mainspring.incarnation i WHERE i.job_id = j.id), 0)
        FROM mainspring.job j WHERE j.due <= now ORDER BY j.due, j.name LIMIT most;
    IF NOT FOUND THEN
        RETURN NEXT;
    END IF;
END
$$;
