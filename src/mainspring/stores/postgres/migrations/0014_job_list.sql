-- What lists of jobs are filtered and sorted by: a narrow row for each job in a table of its own. A tick writes the row
-- of its job anew, and would enter it in each of these indexes again; it touches this one only when the job gains or
-- loses its plan. `search` is name, handler and description in lower case.
CREATE TABLE mainspring.job_list (
    name      text COLLATE "C" PRIMARY KEY,
    job_key   integer NOT NULL,
    handler   text COLLATE "C" NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    origin    text NOT NULL,
    paused    boolean NOT NULL,
    cancelled boolean NOT NULL,
    planned   boolean NOT NULL,                      -- it has a `due`
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    search    text COLLATE "C" NOT NULL
);

-- A job as the list has it. Who wrote it says in `defaults` what to search in; releases before this one do not, and not
-- every database knows the small form of every letter.
CREATE FUNCTION mainspring.listed(j mainspring.job, job_key integer) RETURNS mainspring.job_list LANGUAGE sql STABLE
AS $$
    SELECT (
        j.name, job_key, d.handler, d.queue, j.origin, j.paused IS NOT NULL, j.cancelled IS NOT NULL, j.due IS NOT NULL,
        j.created, j.updated, coalesce(d.search, lower(concat_ws(
            chr(31), j.name, d.handler,
            coalesce(j.overrides::json->>'description', j.declared::json->>'description', '')
        )))
    )::mainspring.job_list
    FROM json_to_record(j.defaults::json) AS d (handler text, queue text, search text)
$$;

INSERT INTO mainspring.incarnation (job_id, job) SELECT j.id, j.name FROM mainspring.job j ON CONFLICT DO NOTHING;

INSERT INTO mainspring.job_list
SELECT (mainspring.listed(j, i.key)).* FROM mainspring.job j JOIN mainspring.incarnation i ON i.job_id = j.id;

CREATE INDEX job_list_key ON mainspring.job_list (job_key);
CREATE INDEX job_list_handler ON mainspring.job_list (handler, name);
CREATE INDEX job_list_handler_back ON mainspring.job_list (handler DESC, name);
CREATE INDEX job_list_queue ON mainspring.job_list (queue, name);
CREATE INDEX job_list_origin ON mainspring.job_list (origin, name);
CREATE INDEX job_list_created ON mainspring.job_list (created, name);
CREATE INDEX job_list_updated ON mainspring.job_list (updated, name);
CREATE INDEX job_list_paused ON mainspring.job_list (name) WHERE paused;
CREATE INDEX job_list_cancelled ON mainspring.job_list (name) WHERE cancelled;
CREATE INDEX job_list_on_demand ON mainspring.job_list (name) WHERE NOT planned;

-- Jobs whose last run did not complete: few, and entered only when that changes.
CREATE INDEX totals_rare ON mainspring.totals (last_state, job_key) WHERE last_state <> 'completed';

CREATE FUNCTION mainspring.list_job() RETURNS trigger LANGUAGE plpgsql AS $$
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
        paused = excluded.paused, cancelled = excluded.cancelled, planned = excluded.planned, created = excluded.created,
        updated = excluded.updated, search = excluded.search;
    RETURN NULL;
END
$$;

CREATE FUNCTION mainspring.unlist_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mainspring.job_list l WHERE l.name = old.name;
    RETURN NULL;
END
$$;

CREATE TRIGGER list_new AFTER INSERT ON mainspring.job FOR EACH ROW EXECUTE FUNCTION mainspring.list_job();

-- The statement of the usual ticks names none of these columns, and is not looked at.
CREATE TRIGGER list_changed AFTER UPDATE OF defaults, origin, paused, cancelled, created, updated ON mainspring.job
FOR EACH ROW WHEN (
    old.updated <> new.updated OR old.defaults <> new.defaults OR old.origin <> new.origin
    OR old.created <> new.created OR (old.paused IS NULL) <> (new.paused IS NULL)
    OR (old.cancelled IS NULL) <> (new.cancelled IS NULL)
)
EXECUTE FUNCTION mainspring.list_job();

CREATE TRIGGER list_planned AFTER UPDATE OF due ON mainspring.job
FOR EACH ROW WHEN ((old.due IS NULL) <> (new.due IS NULL)) EXECUTE FUNCTION mainspring.list_job();

CREATE TRIGGER list_gone AFTER DELETE ON mainspring.job FOR EACH ROW EXECUTE FUNCTION mainspring.unlist_job();
