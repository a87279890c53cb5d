-- One job row by compare-and-set.
CREATE OR REPLACE FUNCTION mainspring.write_job(w mainspring.job, seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
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
        updated = w.updated, due = w.due, template = w.template
    WHERE j.name = w.name AND j.id = w.id AND j.version = seen;
    RETURN FOUND;
END
$$;
