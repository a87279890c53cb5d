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
