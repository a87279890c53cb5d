-- Keeps the narrow row of a job that lists are made from.
CREATE OR REPLACE FUNCTION mainspring.list_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    known integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = new.id);
    row mainspring.job_list;
BEGIN
    IF known IS NULL THEN
        INSERT INTO mainspring.incarnation (job_id, job) VALUES (new.id, new.name)
        ON CONFLICT (job_id) DO UPDATE SET job = excluded.job RETURNING key INTO known;
    END IF;
    row := mainspring.listed(new, known);
    INSERT INTO mainspring.job_list SELECT row.* ON CONFLICT (name) DO UPDATE SET
        job_key = excluded.job_key, handler = excluded.handler, queue = excluded.queue, origin = excluded.origin,
        paused = excluded.paused, cancelled = excluded.cancelled, planned = excluded.planned,
        created = excluded.created, updated = excluded.updated, search = excluded.search,
        labels = excluded.labels;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER list_new AFTER INSERT ON mainspring.job FOR EACH ROW EXECUTE FUNCTION mainspring.list_job();

-- write_ticks updates none of these columns, so ticks do not fire it.
CREATE OR REPLACE TRIGGER list_changed
AFTER UPDATE OF template, origin, paused, cancelled, created, updated ON mainspring.job
FOR EACH ROW WHEN (
    old.updated <> new.updated OR old.template <> new.template OR old.origin <> new.origin
    OR old.created <> new.created OR (old.paused IS NULL) <> (new.paused IS NULL)
    OR (old.cancelled IS NULL) <> (new.cancelled IS NULL)
)
EXECUTE FUNCTION mainspring.list_job();

CREATE OR REPLACE TRIGGER list_planned AFTER UPDATE OF due ON mainspring.job
FOR EACH ROW WHEN ((old.due IS NULL) <> (new.due IS NULL)) EXECUTE FUNCTION mainspring.list_job();
