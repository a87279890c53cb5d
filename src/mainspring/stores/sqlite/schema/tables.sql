-- Tables and indexes. Every name begins with mainspring_, because the file may hold the application's own tables too.
-- Instants are whole microseconds since the epoch, UTC. JSON is text.

CREATE TABLE mainspring_meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO mainspring_meta VALUES ('schema', 0), ('lock_token', 0);

-- ---------------------------------------------------------------------------------------------------- jobs

CREATE TABLE mainspring_jobs (
    name       TEXT PRIMARY KEY,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,
    origin     TEXT NOT NULL,
    declared   TEXT NOT NULL,
    overrides  TEXT NOT NULL,
    release    TEXT NOT NULL,
    next_run   INTEGER,
    last_tick  INTEGER,
    anchor     INTEGER NOT NULL,
    paused     INTEGER,
    paused_by  TEXT,
    pause_note TEXT,
    resume     INTEGER,
    cancelled  INTEGER,
    sweep      INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    due        INTEGER               -- when the scheduler has to look at it next; NULL: never
);

CREATE INDEX mainspring_jobs_due ON mainspring_jobs (due, name) WHERE due IS NOT NULL;
CREATE INDEX mainspring_jobs_sweep ON mainspring_jobs (name) WHERE sweep = 1;

-- What job lists filter and sort by: a narrow row for each job. A tick writes it only when the job gains or loses its
-- `due`. `search` is name, handler and description in lower case.
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

-- Each index ends with the name, the primary key of the table.
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

-- Each incarnation of a job that ever had an execution: how many it had, and how many of them have ended. The
-- transaction that inserts or ends an execution counts it, so the difference is the number of live ones.
CREATE TABLE mainspring_incarnations (
    job_id      TEXT PRIMARY KEY,
    job         TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    ended       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX mainspring_incarnations_job ON mainspring_incarnations (job);
CREATE INDEX mainspring_incarnations_live ON mainspring_incarnations (job_id) WHERE last_number > ended;

-- Statistics. There is one writer at a time, so the transaction that settles merges them, once per job and commit.
CREATE TABLE mainspring_totals (
    job_id        TEXT PRIMARY KEY,
    completed     INTEGER NOT NULL,
    partial       INTEGER NOT NULL,
    failed        INTEGER NOT NULL,
    cancelled     INTEGER NOT NULL,
    skipped       INTEGER NOT NULL,
    duration_ms   REAL NOT NULL,
    timed         INTEGER NOT NULL,
    rescued       INTEGER NOT NULL,
    last_id       TEXT NOT NULL,
    last_state    TEXT,
    last_started  INTEGER,
    last_finished INTEGER,
    last_error    TEXT,
    last_failures INTEGER NOT NULL
) WITHOUT ROWID;

-- Jobs whose last run did not complete: few, and written only when that changes.
CREATE INDEX mainspring_totals_rare ON mainspring_totals (last_state) WHERE last_state <> 'completed';

-- How many executions of a job ended, by trigger and state ("schedule:completed").
CREATE TABLE mainspring_endings (
    job_id TEXT NOT NULL,
    ending TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, ending)
) WITHOUT ROWID;

-- Jobs deleted together with their history, which is removed in small steps.
CREATE TABLE mainspring_purges (
    job_id TEXT PRIMARY KEY
) WITHOUT ROWID;

-- ---------------------------------------------------------------------------------------------- executions

-- What never changes, written once by the insert. `body` is the execution as it was added, a JSON object: a claim
-- reads nothing else. Live and finished executions have a second row, in a table of their own, under the same `seq`:
-- so the table that claims work on, and its indexes, stay small.
CREATE TABLE mainspring_executions (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job_id        TEXT NOT NULL,
    created       INTEGER NOT NULL,
    tenant        TEXT,
    parent_id     TEXT,
    foreign_trace TEXT,                              -- the trace id, unless it is the row's own id
    rare_trigger  TEXT,                              -- NULL: enqueue, as for most executions
    stray         INTEGER NOT NULL DEFAULT 0,        -- 1: the time in its id is not its creation time
    body          TEXT NOT NULL
);

CREATE INDEX mainspring_executions_job ON mainspring_executions (job_id, id);
CREATE INDEX mainspring_executions_tenant ON mainspring_executions (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX mainspring_executions_parent ON mainspring_executions (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX mainspring_executions_trace ON mainspring_executions (foreign_trace, id) WHERE foreign_trace IS NOT NULL;
CREATE INDEX mainspring_executions_stray ON mainspring_executions (created, id) WHERE stray = 1;
CREATE INDEX mainspring_executions_trigger ON mainspring_executions (rare_trigger, id) WHERE rare_trigger IS NOT NULL;
CREATE INDEX mainspring_executions_job_trigger ON mainspring_executions (job_id, rare_trigger, id)
    WHERE rare_trigger IS NOT NULL;

-- What changes while an execution waits and runs: small rows, deleted when it ends.
--
-- Ready rows of a lane are claimed by priority, tag and id. A row without a share has tag 0; a row with a share is in a
-- lane of its own kind (queue/handler//fair) and enters phase 1 when it gets its tag, never before.
--
-- Parked rows stand in wait lines. `parked` is "slot:" or "token:" and the key of the limit, `line` the numbers of the
-- limit and the lane, `place` the turn of a share there. A row that was woken keeps all three until it is claimed or
-- changed.
CREATE TABLE mainspring_live (
    seq                 INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL,
    job_id              TEXT NOT NULL,
    phase               INTEGER NOT NULL,            -- pending: 0 due later, 1 ready, 4 parked; 2 running; 3 waiting
    lane                TEXT NOT NULL,               -- queue/handler, with /alone if exclusive, //fair with a share
    priority            INTEGER NOT NULL,
    due                 INTEGER NOT NULL,
    token               INTEGER NOT NULL DEFAULT 0,
    owner               TEXT,
    lease               INTEGER,
    claimed             INTEGER,
    started             INTEGER,
    parent_id           TEXT,
    unique_key          TEXT,
    overlap_key         TEXT,
    running_unique_key  TEXT,
    running_overlap_key TEXT,
    staged              INTEGER NOT NULL DEFAULT 0,
    blocked             INTEGER NOT NULL DEFAULT 0,  -- 1: deferred because a running key was held
    cancel_requested    INTEGER,
    cancel_reason       TEXT,
    tail                TEXT,                        -- JSON object of what rarely changes; NULL: nothing
    share               TEXT,
    tag                 INTEGER NOT NULL DEFAULT 0,
    parked              TEXT,
    line                TEXT,
    place               INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX mainspring_live_scheduled ON mainspring_live (due) WHERE phase = 0;
CREATE INDEX mainspring_live_ready ON mainspring_live (lane, priority DESC, tag, id) WHERE phase = 1;
CREATE INDEX mainspring_live_share ON mainspring_live (lane, share, priority, tag)
    WHERE share IS NOT NULL AND phase = 1;
CREATE INDEX mainspring_live_parked ON mainspring_live (parked, line, priority DESC, place, id) WHERE phase = 4;
CREATE INDEX mainspring_live_places ON mainspring_live (parked, line, share, priority, place)
    WHERE share IS NOT NULL AND phase = 4;
CREATE INDEX mainspring_live_lease ON mainspring_live (lease) WHERE phase = 2;
CREATE INDEX mainspring_live_waiting ON mainspring_live (job_id) WHERE phase = 3;
CREATE INDEX mainspring_live_job ON mainspring_live (job_id, id);
CREATE INDEX mainspring_live_parent ON mainspring_live (parent_id, phase) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_unique ON mainspring_live (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_overlap ON mainspring_live (overlap_key) WHERE overlap_key IS NOT NULL;
CREATE INDEX mainspring_live_blocked_unique ON mainspring_live (running_unique_key, priority DESC, id)
    WHERE blocked = 1;
CREATE INDEX mainspring_live_blocked_overlap ON mainspring_live (running_overlap_key, priority DESC, id)
    WHERE blocked = 1;
CREATE INDEX mainspring_live_begun ON mainspring_live (started) WHERE phase IN (0, 1, 4) AND started IS NOT NULL;
CREATE INDEX mainspring_live_cancel ON mainspring_live (id) WHERE cancel_requested IS NOT NULL;

-- How an execution ended. Most complete, so the indexes by ending leave those out.
CREATE TABLE mainspring_history (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    job_id      TEXT NOT NULL,
    state       TEXT NOT NULL,
    started     INTEGER,
    finished    INTEGER,
    todo        INTEGER NOT NULL,                    -- 1: follow-ups not known to be done
    keep        INTEGER NOT NULL,                    -- 0: deleted once the follow-ups are done
    parent_id   TEXT,
    due         INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    claimed     INTEGER,
    unique_key  TEXT,
    overlap_key TEXT,
    attempts    TEXT,                                -- JSON; NULL: none
    tail        TEXT                                 -- JSON object of the rest; NULL: nothing
);

CREATE INDEX mainspring_history_outcome ON mainspring_history (state, id) WHERE state <> 'completed';
CREATE INDEX mainspring_history_job_outcome ON mainspring_history (job_id, state, id) WHERE state <> 'completed';
CREATE INDEX mainspring_history_todo ON mainspring_history (id) WHERE todo = 1;
CREATE INDEX mainspring_history_parent ON mainspring_history (parent_id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX mainspring_history_started ON mainspring_history (started);  -- for reports

CREATE TABLE mainspring_logs (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    level        TEXT NOT NULL,
    message      TEXT NOT NULL,
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------- limits

-- Which running rows hold a slot of which key: written and deleted with the phase of the row.
CREATE TABLE mainspring_slots (
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) WITHOUT ROWID;

-- Token buckets that are not full: their level at an instant, and the numbers it was computed with.
CREATE TABLE mainspring_buckets (
    key   TEXT PRIMARY KEY,
    level REAL NOT NULL,
    since INTEGER NOT NULL,
    rate  REAL NOT NULL,
    burst INTEGER NOT NULL
) WITHOUT ROWID;

-- What rows are parked for, and when to check whether there is room.
CREATE TABLE mainspring_waits (
    parked TEXT PRIMARY KEY,
    look   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX mainspring_waits_look ON mainspring_waits (look);

-- ------------------------------------------------------------------------------ workers, locks, audit, entries

CREATE TABLE mainspring_workers (
    id   TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    info TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE mainspring_locks (
    name     TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    token    INTEGER NOT NULL,
    acquired INTEGER NOT NULL,
    expires  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE mainspring_audit (
    id         TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    before     TEXT,
    after      TEXT,
    request_id TEXT
);

CREATE INDEX mainspring_audit_target ON mainspring_audit (target, id);

-- Small durable records of core. Texts are compared byte by byte, which is the order of code points.
CREATE TABLE mainspring_entries (
    kind    TEXT NOT NULL,
    scope   TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (kind, scope, key)
) WITHOUT ROWID;
