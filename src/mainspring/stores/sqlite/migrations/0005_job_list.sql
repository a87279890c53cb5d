-- What lists of jobs are filtered and sorted by: a narrow row for each job, which its ticks leave alone unless it gains
-- or loses its plan. `search` is name, handler and description in lower case.
CREATE TABLE mainspring_job_list (
    name      TEXT PRIMARY KEY,
    id        TEXT NOT NULL,
    handler   TEXT NOT NULL,
    queue     TEXT NOT NULL,
    origin    TEXT NOT NULL,
    paused    INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    planned   INTEGER NOT NULL,                      -- 1: it has a `due`
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    search    TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO mainspring_job_list
SELECT name, id, handler, queue, origin, paused, cancelled, planned, created, updated,
    mainspring_lower(name || char(31) || handler || char(31) || description)
FROM (
    SELECT name, id, origin, created, updated,
        paused IS NOT NULL AS paused, cancelled IS NOT NULL AS cancelled, due IS NOT NULL AS planned,
        coalesce(json_extract(overrides, '$.handler'), json_extract(declared, '$.handler'), '') AS handler,
        coalesce(json_extract(overrides, '$.queue'), json_extract(declared, '$.queue'), 'default') AS queue,
        coalesce(json_extract(overrides, '$.description'), json_extract(declared, '$.description'), '') AS description
    FROM mainspring_jobs
);

-- Each ends with the name, the key of the table.
CREATE INDEX mainspring_job_list_id ON mainspring_job_list (id);
CREATE INDEX mainspring_job_list_handler ON mainspring_job_list (handler);
CREATE INDEX mainspring_job_list_handler_back ON mainspring_job_list (handler DESC, name);
CREATE INDEX mainspring_job_list_queue ON mainspring_job_list (queue);
CREATE INDEX mainspring_job_list_origin ON mainspring_job_list (origin);
CREATE INDEX mainspring_job_list_created ON mainspring_job_list (created);
CREATE INDEX mainspring_job_list_updated ON mainspring_job_list (updated);
CREATE INDEX mainspring_job_list_paused ON mainspring_job_list (name) WHERE paused = 1;
CREATE INDEX mainspring_job_list_cancelled ON mainspring_job_list (name) WHERE cancelled = 1;
CREATE INDEX mainspring_job_list_on_demand ON mainspring_job_list (name) WHERE planned = 0;

-- Jobs whose last run did not complete: few, and entered only when that changes.
CREATE INDEX mainspring_totals_rare ON mainspring_totals (last_state) WHERE last_state <> 'completed';
