-- How often each state of a job occurs: the server then expects the many failures of one job, and goes along the index
-- for a page of them instead of sorting them all. Later months: see make_partition.sql. This comes first, because it may
-- have to wait until an autovacuum gives way; nobody else waits meanwhile.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
    part name;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'mainspring.history'::regclass
    LOOP
        EXECUTE format('CREATE STATISTICS mainspring.%I ON job_key, state FROM mainspring.%I', part || '_of_jobs', part);
    END LOOP;
END
$$;

-- In the order in which heartbeats, ticks and lists of the release before take them, and before anything else: a
-- migration that came to one of them later would wait for a process that waits for it. Whoever needs one of them waits
-- behind a migration that waits, so it gives up soon and tries again.
SET LOCAL lock_timeout = '200ms';
LOCK TABLE mainspring.job IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE mainspring.job_list, mainspring.worker IN ACCESS EXCLUSIVE MODE;

-- Texts by which executions are found: see model.labels. A table of their own, because the release before moves rows
-- between `live` and `history` with functions that know no such column.
CREATE TABLE mainspring.label (
    label text COLLATE "C" NOT NULL,
    id    uuid NOT NULL,
    PRIMARY KEY (label, id)
);

CREATE INDEX label_id ON mainspring.label (id, label);

-- See Job.labels. Jobs that are there get them afterwards, by label_jobs.
INSERT INTO mainspring.meta VALUES ('unlabelled', 1) ON CONFLICT DO NOTHING;
ALTER TABLE mainspring.job_list ADD COLUMN labels text[];
CREATE INDEX job_list_labels ON mainspring.job_list USING gin (labels);

-- JSON: what changes from one heartbeat to the next. `info`, which names all that a process declares, is then written
-- only when it has changed.
ALTER TABLE mainspring.worker ADD COLUMN status text;

-- When the indexes of the live table were last looked at: see maintenance.py.
INSERT INTO mainspring.meta VALUES ('indexes', 0) ON CONFLICT DO NOTHING;
