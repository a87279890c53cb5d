-- Writing jobs: each row by compare-and-set on its own, in the order of names; its executions and its audit record
-- only if the write won. They get their numbers here, from the incarnation the write has locked anyway.

CREATE FUNCTION mainspring.write_job(w mainspring.job, seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF seen IS NULL THEN
        INSERT INTO mainspring.job SELECT w.* ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO mainspring.incarnation (job_id, job) VALUES (w.id, w.name) ON CONFLICT DO NOTHING;
            RETURN true;
        END IF;
        RETURN false;
    END IF;
    UPDATE mainspring.job j SET
        version = seen + 1, origin = w.origin, declared = w.declared, overrides = w.overrides, release = w.release,
        next_run = w.next_run, last_tick = w.last_tick, anchor = w.anchor, paused = w.paused, paused_by = w.paused_by,
        pause_note = w.pause_note, resume = w.resume, cancelled = w.cancelled, sweep = w.sweep, created = w.created,
        updated = w.updated, due = w.due, defaults = w.defaults
    WHERE j.name = w.name AND j.id = w.id AND j.version = seen;
    RETURN FOUND;
END
$$;

-- `writes` are [{job, seen, audit, plain, others}, ...] in the order of names, no name twice. Returns one
-- {known, outcomes} for each write that won, null for the others.
CREATE FUNCTION mainspring.write_jobs(writes json) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    one record;
    answers json[] := '{}';
BEGIN
    FOR one IN
        SELECT x.job, x.seen, x.audit, x.plain, x.others FROM json_to_recordset(writes) AS x (
            job mainspring.job, seen bigint, audit json, plain mainspring.incoming[], others mainspring.incoming[]
        )
    LOOP
        IF NOT mainspring.write_job(one.job, one.seen) THEN
            answers := answers || 'null'::json;
            CONTINUE;
        END IF;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
        answers := answers || mainspring.add_ticks((one.job).id, one.plain, one.others, now);
    END LOOP;
    RETURN array_to_json(answers);
END
$$;

CREATE FUNCTION mainspring.add_ticks(
    of_job text, plain mainspring.incoming[], others mainspring.incoming[], now bigint
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    known uuid[];
    outcomes json;
    n integer;
BEGIN
    IF plain IS NULL AND others IS NULL THEN
        RETURN '{}'::json;
    END IF;
    SELECT i.last_number INTO base FROM mainspring.incarnation i WHERE i.job_id = of_job FOR UPDATE;
    FOR n IN 1 .. coalesce(cardinality(plain), 0) LOOP
        base := base + 1;
        plain[n].number := base;
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(others), 0) LOOP
        base := base + 1;
        others[n].number := base;
    END LOOP;
    IF plain IS NOT NULL THEN
        known := mainspring.add_plain(plain, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.add_each(others, now);
    END IF;
    UPDATE mainspring.incarnation i SET last_number = base WHERE i.job_id = of_job;
    RETURN json_build_object('known', known, 'outcomes', outcomes);
END
$$;

-- Ticks, the usual ones: nothing but the plan of a job changes, and one execution is due that asks for no key but that
-- of its job. As arrays, in the order of names: all of them in one statement.
CREATE TYPE mainspring.ticks AS (
    jobs text[], job_ids text[], seen bigint[], next_runs bigint[], last_ticks bigint[], next_dues bigint[],
    ids uuid[], lanes text[], priorities integer[], created bigint[], dues bigint[], bodies text[],
    overlap_keys text[], running_keys text[], staged boolean[]
);

-- `won` are the places of the writes that won. Their executions are added, but for those in `others`: [[place, outcome,
-- holder], ...]. Another scheduler that is at the same ticks is not waited for, it will have made them; should it fail,
-- they are still due.
CREATE FUNCTION mainspring.write_ticks(t mainspring.ticks, OUT won bigint[], OUT others json) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    numbers bigint[];
    added uuid[];
    ended uuid[];
BEGIN
    PERFORM mainspring.know_jobs(t.job_ids, t.jobs);
    WITH mine AS (
        SELECT g.*
        FROM unnest(
            t.jobs, t.job_ids, t.seen, t.next_runs, t.last_ticks, t.next_dues, t.ids, t.lanes, t.priorities, t.created,
            t.dues, t.bodies, t.overlap_keys, t.running_keys, t.staged
        ) WITH ORDINALITY g (
            job, job_id, seen, next_run, last_tick, next_due, id, lane, priority, created, due, body, overlap_key,
            running_key, staged, place
        )
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.job j WHERE j.name = g.job AND j.id = g.job_id AND j.version = g.seen
            FOR UPDATE SKIP LOCKED
        ) j
    ), advanced AS (
        UPDATE mainspring.job j SET
            version = m.seen + 1, next_run = m.next_run, last_tick = m.last_tick, due = m.next_due
        FROM mine m WHERE j.name = m.job
        RETURNING m.*
    ), numbered AS (
        UPDATE mainspring.incarnation i SET last_number = i.last_number + 1
        FROM advanced a WHERE i.job_id = a.job_id
        RETURNING a.*, i.key, i.last_number
    ), inserted AS (
        INSERT INTO mainspring.live (
            id, job_key, phase, lane, priority, created, due, body, number, staged, overlap_key, running_overlap_key
        )
        SELECT n.id, n.key, mainspring.phase_of(NULL, n.due, now), n.lane, n.priority, n.created, n.due, n.body,
               n.last_number, coalesce(n.staged, false), n.overlap_key, n.running_key
        FROM numbered n
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT array_agg(n.place), array_agg(n.last_number), (SELECT array_agg(i.id) FROM inserted i)
    INTO won, numbers, added FROM numbered n;
    ended := mainspring.take_back(added);
    IF ended IS NOT NULL OR coalesce(cardinality(added), 0) < cardinality(won) THEN
        others := mainspring.add_refused(t, won, numbers, added, ended, now);
    END IF;
END
$$;

-- Executions of ticks that could not be added with the others, one by one: most of them are skipped.
CREATE FUNCTION mainspring.add_refused(
    t mainspring.ticks, won bigint[], numbers bigint[], added uuid[], ended uuid[], now bigint
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    row mainspring.incoming;
    one record;
    added_as record;
    answers json[] := '{}';
BEGIN
    FOR one IN
        SELECT r.*, w.number, r.id = ANY (ended) AS known
        FROM unnest(won, numbers) w (place, number)
        JOIN unnest(
            t.jobs, t.job_ids, t.ids, t.lanes, t.priorities, t.created, t.dues, t.bodies, t.overlap_keys, t.running_keys,
            t.staged
        ) WITH ORDINALITY r (
            job, job_id, id, lane, priority, created, due, body, overlap_key, running_key, staged, place
        ) ON r.place = w.place
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
        ORDER BY r.place
    LOOP
        row.id := one.id; row.job := one.job; row.job_id := one.job_id; row.state := 'pending'; row.lane := one.lane;
        row.priority := one.priority; row.created := one.created; row.due := one.due; row.body := one.body;
        row.number := one.number; row.staged := one.staged; row.overlap_key := one.overlap_key;
        row.running_overlap_key := one.running_key;
        SELECT * INTO added_as FROM mainspring.add_one(row, now);
        answers := answers || json_build_array(one.place, added_as.outcome, added_as.holder);
    END LOOP;
    RETURN array_to_json(answers);
END
$$;

-- The id of the job that was deleted, or NULL. What is left of its history is removed in small steps, by purge_some.
CREATE FUNCTION mainspring.delete_job(wanted text, seen bigint, purge boolean, audit json) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    deleted text;
    gone integer;
BEGIN
    DELETE FROM mainspring.job j WHERE j.name = wanted AND j.version = seen RETURNING j.id INTO deleted;
    IF deleted IS NULL THEN
        RETURN NULL;
    END IF;
    IF audit IS NOT NULL THEN
        PERFORM mainspring.write_audits(json_build_array(audit));
    END IF;
    IF purge THEN
        SELECT i.key INTO gone FROM mainspring.incarnation i WHERE i.job_id = deleted;
        DELETE FROM mainspring.totals t WHERE t.job_key = gone;
        DELETE FROM mainspring.delta d WHERE d.job_key = gone;
        INSERT INTO mainspring.purge (job_key) VALUES (gone) ON CONFLICT DO NOTHING;
    END IF;
    RETURN deleted;
END
$$;

-- Removes a part of the history of one job deleted with it; false when nothing is left to do.
CREATE FUNCTION mainspring.purge_some(most integer) RETURNS boolean LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    gone integer := (SELECT p.job_key FROM mainspring.purge p LIMIT 1);
    ids uuid[];
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    ids := ARRAY(
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state = 'completed'
        UNION ALL
        SELECT h.id FROM mainspring.history h WHERE h.job_key = gone AND h.state <> 'completed'
        LIMIT most
    );
    DELETE FROM mainspring.history h WHERE h.id = ANY (ids);
    DELETE FROM mainspring.log g WHERE g.execution_id = ANY (ids);
    IF cardinality(ids) < most THEN
        DELETE FROM mainspring.numbers n WHERE n.job_key = gone;
        DELETE FROM mainspring.purge p WHERE p.job_key = gone;
    END IF;
    RETURN true;
END
$$;

-- Jobs whose time has come, earliest first, each with the store's now and when the first of the others is due. There is
-- always one row. A function, because of its settings: a plan for this very limit would be made anew each time.
CREATE FUNCTION mainspring.due_jobs(most bigint) RETURNS TABLE (
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
