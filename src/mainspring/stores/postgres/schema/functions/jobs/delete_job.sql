-- Deletes the job and returns its id, or NULL. Its history is removed in small steps, by purge_some.
CREATE OR REPLACE FUNCTION mainspring.delete_job(wanted text, seen bigint, purge boolean, audit json) RETURNS text
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
        DELETE FROM mainspring.trigger_totals t WHERE t.job_key = gone;
        DELETE FROM mainspring.delta d WHERE d.job_key = gone;
        INSERT INTO mainspring.purge (job_key) VALUES (gone) ON CONFLICT DO NOTHING;
    END IF;
    RETURN deleted;
END
$$;
