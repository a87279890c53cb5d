-- Live and finished apart: what claims and their indexes work on stays small for ever.
-- Every name begins with mainspring_, because the file may hold the application's own tables too (ENQ-2).
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
    due        INTEGER               -- when a scheduler has to look at it next; NULL: never
);

CREATE INDEX mainspring_jobs_due ON mainspring_jobs (due, name) WHERE due IS NOT NULL;
CREATE INDEX mainspring_jobs_sweep ON mainspring_jobs (name) WHERE sweep = 1;

-- Each incarnation of a job that ever had an execution: how many it had, and how many of them have ended. The
-- transaction that inserts or ends an execution counts it, so the difference is what is live, without counting rows.
CREATE TABLE mainspring_incarnations (
    job_id      TEXT PRIMARY KEY,
    job         TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    ended       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX mainspring_incarnations_job ON mainspring_incarnations (job);
CREATE INDEX mainspring_incarnations_live ON mainspring_incarnations (job_id) WHERE last_number > ended;

-- One writer at a time: statistics are merged by the transaction that settles, once per job and commit.
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

-- Jobs deleted with their history: what is left of it is removed in small steps.
CREATE TABLE mainspring_purges (
    job_id TEXT PRIMARY KEY
) WITHOUT ROWID;

-- ---------------------------------------------------------------------------------------------- executions

-- What never changes: written once, by the insert, and left where it is. `body` is the execution as it was added, a
-- JSON object: whoever claims it needs nothing else.
CREATE TABLE mainspring_executions (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job_id        TEXT NOT NULL,
    created       INTEGER NOT NULL,
    tenant        TEXT,
    parent_id     TEXT,
    foreign_trace TEXT,                              -- the trace id, unless it is the row's own id
    stray         INTEGER NOT NULL DEFAULT 0,        -- 1: its id does not tell when it was created
    body          TEXT NOT NULL
);

CREATE INDEX mainspring_executions_job ON mainspring_executions (job_id, id);
CREATE INDEX mainspring_executions_tenant ON mainspring_executions (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX mainspring_executions_parent ON mainspring_executions (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX mainspring_executions_trace ON mainspring_executions (foreign_trace, id) WHERE foreign_trace IS NOT NULL;

-- What changes while an execution waits and runs: small rows, gone when it ends. `tail` is a JSON object of what
-- seldom changes.
CREATE TABLE mainspring_live (
    seq                 INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL,
    job_id              TEXT NOT NULL,
    phase               INTEGER NOT NULL,            -- 0 pending, in the future; 1 pending, ready; 2 running; 3 waiting
    lane                TEXT NOT NULL,               -- queue/handler, or queue/handler/alone
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
    tail                TEXT
);

CREATE INDEX mainspring_live_scheduled ON mainspring_live (due) WHERE phase = 0;
CREATE INDEX mainspring_live_ready ON mainspring_live (lane, priority DESC, id) WHERE phase = 1;
CREATE INDEX mainspring_live_lease ON mainspring_live (lease) WHERE phase = 2;
CREATE INDEX mainspring_live_waiting ON mainspring_live (job_id) WHERE phase = 3;
CREATE INDEX mainspring_live_job ON mainspring_live (job_id, id);
CREATE INDEX mainspring_live_parent ON mainspring_live (parent_id, phase) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_unique ON mainspring_live (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_overlap ON mainspring_live (overlap_key) WHERE overlap_key IS NOT NULL;
CREATE INDEX mainspring_live_blocked_unique ON mainspring_live (running_unique_key) WHERE blocked = 1;
CREATE INDEX mainspring_live_blocked_overlap ON mainspring_live (running_overlap_key) WHERE blocked = 1;
CREATE INDEX mainspring_live_cancel ON mainspring_live (id) WHERE cancel_requested IS NOT NULL;

-- How an execution ended. Most complete, so the indexes that look for endings leave those out.
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

CREATE TABLE mainspring_logs (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    level        TEXT NOT NULL,
    message      TEXT NOT NULL,
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;

-- ------------------------------------------------------------------------------------- workers, locks, audit

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
