-- Tables, types and indexes of the first version. Live executions and finished ones lie in separate tables: claims,
-- vacuum and partial indexes work on the live table, which stays small.
-- The files are written for the schema "mainspring"; another schema name is put in when they are read.
-- Instants are whole microseconds since the epoch, UTC. JSON is text, opaque to the database.

CREATE TABLE mainspring.meta (
    key   text PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO mainspring.meta VALUES ('schema', 0), ('partitions', 0);

-- The functions and views that are in place, and the release that put them there: see migrate.py.
CREATE TABLE mainspring.definition (
    name     text COLLATE "C" PRIMARY KEY,
    checksum text NOT NULL,
    release  integer[] NOT NULL
);

-- ---------------------------------------------------------------------------------------------------- jobs

CREATE TABLE mainspring.job (
    name       text COLLATE "C" PRIMARY KEY,
    id         text NOT NULL,
    version    bigint NOT NULL,
    origin     text NOT NULL,
    declared   text NOT NULL,
    overrides  text NOT NULL,
    release    text NOT NULL,
    next_run   bigint,
    last_tick  bigint,
    anchor     bigint NOT NULL,
    paused     bigint,
    paused_by  text,
    pause_note text,
    resume     bigint,
    cancelled  bigint,
    sweep      boolean NOT NULL,
    created    bigint NOT NULL,
    updated    bigint NOT NULL,
    due        bigint,               -- when a scheduler has to look at it next; NULL: never
    template   text NOT NULL         -- JSON: what mainspring.enqueue makes executions from (jobs/rows.py)
) WITH (fillfactor = 70);

CREATE INDEX job_due ON mainspring.job (due, name) WHERE due IS NOT NULL;
CREATE INDEX job_sweep ON mainspring.job (name) WHERE sweep;

-- Each incarnation of a job, under a short key that executions carry in place of its id, and the number of its last
-- execution. Written with the job: an enqueue only reads it, so that on-demand work shares no hot row.
CREATE TABLE mainspring.incarnation (
    key         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id      text COLLATE "C" NOT NULL UNIQUE,
    job         text COLLATE "C" NOT NULL,
    last_number bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE INDEX incarnation_job ON mainspring.incarnation (job);

-- What lists of jobs are filtered and sorted by: a narrow row for each job in a table of its own. A tick writes a new
-- version of the job's row and would enter it in each of these indexes again; it touches this table only when the job
-- gains or loses its plan. Triggers on `job` keep it (functions/jobs/list_job.sql).
CREATE TABLE mainspring.job_list (
    name      text COLLATE "C" PRIMARY KEY,
    job_key   integer NOT NULL,
    handler   text COLLATE "C" NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    origin    text NOT NULL,
    paused    boolean NOT NULL,
    cancelled boolean NOT NULL,
    planned   boolean NOT NULL,      -- it has a `due`
    created   bigint NOT NULL,
    updated   bigint NOT NULL,
    search    text COLLATE "C" NOT NULL  -- name, handler and description in lower case
);

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

-- Jobs deleted with their history, which is removed in small steps.
CREATE TABLE mainspring.purge (
    job_key integer PRIMARY KEY
);

-- ---------------------------------------------------------------------------------------------- executions

-- `body` is a JSON object without its closing brace: what never changes after the insert. Only rows in the right
-- phase are in the larger indexes, so that a claim writes three index entries and an ending none.
-- Rows with a share are in a lane of their own kind, `queue/handler//fair`; rows with limits alone in
-- `queue/handler//limited`, which counts as the lane without that. Exclusive ones have `alone` in between.
CREATE TABLE mainspring.live (
    id                  uuid NOT NULL,
    created             bigint NOT NULL,
    due                 bigint NOT NULL,
    lease               bigint,
    claimed             bigint,
    started             bigint,
    cancel_requested    bigint,
    number              bigint,
    token               bigint NOT NULL DEFAULT 0,
    job_key             integer NOT NULL,
    priority            integer NOT NULL,
    failures            integer NOT NULL DEFAULT 0,
    crashes             integer NOT NULL DEFAULT 0,
    phase               smallint NOT NULL,           -- pending: 0 future, 1 ready, -1 parked; 2 running; 3 waiting
    alone               boolean NOT NULL DEFAULT false,
    staged              boolean NOT NULL DEFAULT false,
    blocked             boolean NOT NULL DEFAULT false,  -- deferred because a running key was held
    stray               boolean NOT NULL DEFAULT false,  -- the time in its id is not that of its creation
    lane                text COLLATE "C" NOT NULL,
    owner               text,
    unique_key          text COLLATE "C",
    overlap_key         text COLLATE "C",
    running_unique_key  text COLLATE "C",
    running_overlap_key text COLLATE "C",
    cancel_reason       text,
    tenant              text COLLATE "C",
    parent_id           text COLLATE "C",
    foreign_trace       text COLLATE "C",            -- the trace id, unless it is the row's own id
    reason              text,
    error               text,
    attempts            text,
    result              text,
    counters            text,
    metadata            text,
    progress            text,
    body                text NOT NULL,
    trigger             text COLLATE "C",            -- NULL: an enqueue, as for nearly all
    share               text COLLATE "C",
    weight              integer,
    tag                 bigint,                      -- the turn of a row with a share, while it is ready
    limits              text,
    -- A parked row waits for a slot or a token of the key in `parked`. `line` is the numbers of that limit and the
    -- lane, `place` the turn of a share in it. All four stay until the row is claimed or changed: parked again in the
    -- same wait line, it has its old place.
    parked              text COLLATE "C",
    for_token           boolean,
    line                text COLLATE "C",
    place               bigint,
    CONSTRAINT live_id PRIMARY KEY (id) WITH (fillfactor = 45)  -- room for the entry that a claim adds
) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0
);

-- With the lane or the time, so that rows are counted by lane without reading them. Older databases: live_indexes.py.
CREATE INDEX live_scheduled_lane ON mainspring.live (due) INCLUDE (lane) WHERE phase = 0;
CREATE INDEX live_ready_due ON mainspring.live (lane, priority DESC, id) INCLUDE (due) WHERE phase = 1;
CREATE INDEX live_pending ON mainspring.live (job_key, id) WHERE phase < 2;
CREATE INDEX live_active ON mainspring.live (job_key, id) WHERE phase >= 2;
CREATE UNIQUE INDEX live_unique ON mainspring.live (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX live_overlap ON mainspring.live (overlap_key) WHERE overlap_key IS NOT NULL;
CREATE INDEX live_blocked_unique ON mainspring.live (running_unique_key, priority DESC, id) WHERE blocked;
CREATE INDEX live_blocked_overlap ON mainspring.live (running_overlap_key, priority DESC, id) WHERE blocked;
-- For reports by the start, together with live_active.
CREATE INDEX live_begun ON mainspring.live (to_timestamp(started::double precision / 1000000))
    WHERE phase < 2 AND started IS NOT NULL;
CREATE INDEX live_cancel ON mainspring.live (owner, id) WHERE cancel_requested IS NOT NULL;
CREATE INDEX live_parent ON mainspring.live (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX live_tenant ON mainspring.live (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX live_trace ON mainspring.live (foreign_trace, id) WHERE foreign_trace IS NOT NULL;
CREATE INDEX live_stray ON mainspring.live (created, id) WHERE stray;
CREATE INDEX live_trigger ON mainspring.live (trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX live_fair ON mainspring.live (lane, priority DESC, tag, id) WHERE phase = 1 AND tag IS NOT NULL;
CREATE INDEX live_share ON mainspring.live (lane, priority, share, tag DESC) WHERE phase = 1 AND tag IS NOT NULL;
CREATE INDEX live_parked ON mainspring.live (parked, for_token, line, priority DESC, place, id) WHERE phase = -1;
CREATE INDEX live_place ON mainspring.live (parked, for_token, line, priority, share, place DESC)
    WHERE phase = -1 AND share IS NOT NULL;

-- One row for each key of a limit that is in use; a row is locked before its key is judged or freed. `running` is how
-- many running rows carry the key, `level` how many tokens there were at the instant `since`. Rows that wait for a
-- slot or a token are looked at once `slot_look` or `token_look` has come.
CREATE TABLE mainspring.limit_state (
    key        text COLLATE "C" PRIMARY KEY,
    running    integer NOT NULL DEFAULT 0,
    level      double precision,
    since      bigint,
    rate       double precision,
    burst      integer,
    slot_look  bigint,
    token_look bigint
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX limit_look ON mainspring.limit_state (least(slot_look, token_look))
    WHERE slot_look IS NOT NULL OR token_look IS NOT NULL;

-- Partitioned by id, that is by the time of creation: an id alone gives its partition.
CREATE TABLE mainspring.history (
    id               uuid NOT NULL,
    created          bigint NOT NULL,
    due              bigint NOT NULL,
    claimed          bigint,
    started          bigint,
    finished         bigint,
    -- The usual end is one attempt that completed: `tried` is when it began, and these three columns stand in for
    -- `attempts`.
    tried            bigint,
    tried_cpu        double precision,
    cancel_requested bigint,
    number           bigint,                         -- NULL: given by `fold`, see mainspring.numbers
    token            bigint NOT NULL,
    job_key          integer NOT NULL,
    failures         integer NOT NULL,
    crashes          integer NOT NULL,
    alone            boolean NOT NULL,
    staged           boolean NOT NULL,
    todo             boolean NOT NULL,               -- follow-ups not known to be done
    keep             boolean NOT NULL,               -- false: deleted once the follow-ups are done
    stray            boolean NOT NULL,
    state            text NOT NULL,
    tried_by         text,
    unique_key       text,
    overlap_key      text,
    running_unique_key  text,
    running_overlap_key text,
    cancel_reason    text,
    tenant           text COLLATE "C",
    parent_id        text COLLATE "C",
    foreign_trace    text COLLATE "C",
    reason           text,
    error            text,
    attempts         text,
    result           text,
    counters         text,
    metadata         text,
    progress         text,
    body             text NOT NULL,
    trigger          text COLLATE "C",
    CONSTRAINT history_id PRIMARY KEY (id)
) PARTITION BY RANGE (id);

CREATE INDEX history_completed ON mainspring.history (job_key, id) WHERE state = 'completed';
CREATE INDEX history_other ON mainspring.history (job_key, id) WHERE state <> 'completed';
CREATE INDEX history_outcome ON mainspring.history (state, id) WHERE state <> 'completed';
CREATE INDEX history_job_outcome ON mainspring.history (job_key, state, id) WHERE state <> 'completed';
CREATE INDEX history_todo ON mainspring.history (id) WHERE todo;
CREATE INDEX history_parent ON mainspring.history (parent_id, id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX history_tenant ON mainspring.history (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX history_trace ON mainspring.history (foreign_trace, id) WHERE foreign_trace IS NOT NULL;
CREATE INDEX history_stray ON mainspring.history (created, id) WHERE stray;
CREATE INDEX history_trigger ON mainspring.history (trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX history_job_trigger ON mainspring.history (job_key, trigger, id) WHERE trigger IS NOT NULL;

-- Rows come in the order in which they end, so the start of neighbours is alike. Expression as in as_time.sql.
CREATE INDEX history_started ON mainspring.history USING brin (to_timestamp(started::double precision / 1000000))
    WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE mainspring.history_default PARTITION OF mainspring.history DEFAULT;

CREATE TABLE mainspring.log (
    execution_id uuid NOT NULL,
    seq          integer NOT NULL,
    at           bigint NOT NULL,
    level        text NOT NULL,
    message      text NOT NULL,
    PRIMARY KEY (execution_id, seq)
);

-- ---------------------------------------------------------------------------------------------- statistics

CREATE TABLE mainspring.totals (
    job_key       integer PRIMARY KEY,
    completed     bigint NOT NULL,
    partial       bigint NOT NULL,
    failed        bigint NOT NULL,
    cancelled     bigint NOT NULL,
    skipped       bigint NOT NULL,
    duration_ms   double precision NOT NULL,
    timed         bigint NOT NULL,
    rescued       bigint NOT NULL,
    last_id       uuid,
    last_state    text,
    last_started  bigint,
    last_finished bigint,
    last_error    text,
    last_failures integer NOT NULL
) WITH (fillfactor = 50);

-- Jobs whose last run did not complete: few, and entered only when that changes.
CREATE INDEX totals_rare ON mainspring.totals (last_state, job_key) WHERE last_state <> 'completed';

CREATE TABLE mainspring.trigger_totals (
    job_key   integer NOT NULL,
    trigger   text COLLATE "C" NOT NULL,
    completed bigint NOT NULL,
    partial   bigint NOT NULL,
    failed    bigint NOT NULL,
    cancelled bigint NOT NULL,
    skipped   bigint NOT NULL,
    PRIMARY KEY (job_key, trigger)
) WITH (fillfactor = 50);

-- Insert-only: what one settled batch adds to one job and trigger. `fold` merges it into the totals within seconds.
CREATE TABLE mainspring.delta (
    job_key       integer NOT NULL,
    completed     integer NOT NULL DEFAULT 0,
    partial       integer NOT NULL DEFAULT 0,
    failed        integer NOT NULL DEFAULT 0,
    cancelled     integer NOT NULL DEFAULT 0,
    skipped       integer NOT NULL DEFAULT 0,
    duration_ms   double precision NOT NULL DEFAULT 0,
    timed         integer NOT NULL DEFAULT 0,
    rescued       integer NOT NULL DEFAULT 0,
    last_id       uuid,
    last_state    text,
    last_started  bigint,
    last_finished bigint,
    last_error    text,
    last_failures integer NOT NULL DEFAULT 0,
    ids           uuid[],                            -- executions that have no number yet
    dropped       integer NOT NULL DEFAULT 0,        -- how many more use up a number, though no row of theirs is kept
    trigger       text                               -- NULL: an enqueue
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Numbers given by `fold`: execution ids[n] has number first + n - 1. An array for hundreds of executions costs a
-- hundredth of writing each of their rows again. All ids of a row were made within the same four minutes (`span`).
CREATE TABLE mainspring.numbers (
    job_key integer NOT NULL,
    span    bigint NOT NULL,
    low     uuid NOT NULL,
    high    uuid NOT NULL,
    first   bigint NOT NULL,
    ids     uuid[] NOT NULL
);

CREATE INDEX numbers_span ON mainspring.numbers (job_key, span);

-- Ids made within moments begin alike and still hardly get smaller: trying to compress them costs more than it saves.
ALTER TABLE mainspring.numbers ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE mainspring.delta ALTER COLUMN ids SET STORAGE EXTERNAL;

-- -------------------------------------------------------------------------- workers, locks, audit, entries

CREATE TABLE mainspring.worker (
    id   text COLLATE "C" PRIMARY KEY,
    seen bigint NOT NULL,
    info text NOT NULL
) WITH (fillfactor = 50);

CREATE SEQUENCE mainspring.lock_token;

CREATE TABLE mainspring.lock (
    name     text COLLATE "C" PRIMARY KEY,
    owner    text NOT NULL,
    token    bigint NOT NULL,
    acquired bigint NOT NULL,
    expires  bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE mainspring.audit (
    id         text COLLATE "C" PRIMARY KEY,
    at         bigint NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    target     text COLLATE "C" NOT NULL,
    before     text,
    after      text,
    request_id text
);

CREATE INDEX audit_target ON mainspring.audit (target, id);

-- Small durable records beside jobs and executions, identified by kind, scope and key.
CREATE TABLE mainspring.entry (
    kind    text COLLATE "C" NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (kind, scope, key)
);

-- ---------------------------------------------------------------------------- parameters of the functions

-- An execution to be added, read from a JSON object with these fields; what is left out is NULL.
CREATE TYPE mainspring.incoming AS (
    id uuid, job text, job_id text, state text, lane text, priority integer, created bigint, due bigint, body text,
    foreign_trace text, tenant text, parent_id text, number bigint, stray boolean,
    token bigint, owner text, lease bigint, claimed bigint, started bigint, finished bigint,
    failures integer, crashes integer, alone boolean, staged boolean, todo boolean,
    unique_key text, overlap_key text, slots integer, running_unique_key text, running_overlap_key text,
    cancel_requested bigint, cancel_reason text,
    reason text, error text, attempts text, result text, counters text, metadata text, progress text,
    share text, weight integer, limits text
);

-- Executions without a history, tenant, share or limits, as arrays: pending, with a unique key at most. One job, lane
-- or priority may stand for all; a due time left out is that of the creation. `low` and `high` are the smallest and
-- the greatest id.
CREATE TYPE mainspring.fresh AS (
    ids uuid[], created bigint[], bodies text[], job_ids text[], jobs text[], lanes text[], priorities integer[],
    dues bigint[], foreign_traces text[], unique_keys text[], low uuid, high uuid
);

-- Changes of state, one element per change, in the order of their ids and no id twice. An array left out stands for
-- the usual value: expected running, now completed, no failures. One owner may stand for all.
-- Flags: 1 not final, 2 follow-ups to do, 4 not to be kept, 8 a rescue, 16 to run alone. None at all: NULL.
CREATE TYPE mainspring.changes AS (
    ids uuid[], expects smallint[], tokens bigint[], owners text[], states text[], ats bigint[], failures integer[],
    crashes integer[], delays bigint[], starts bigint[], attempts text[], reasons text[], errors text[],
    results text[], counters text[], metadata text[], flags smallint[], audits json
);

-- First attempts that completed, all of one owner: nearly all endings. One token may stand for all. `tries` is when
-- each attempt began.
CREATE TYPE mainspring.completions AS (
    ids uuid[], tokens bigint[], owner text, ats bigint[], tries bigint[], cpus double precision[],
    results text[]
);

-- Ticks that change nothing but the plan of their job and make one execution, which asks for no key but the overlap
-- key of its job; in the order of job names.
CREATE TYPE mainspring.ticks AS (
    jobs text[], job_ids text[], seen bigint[], next_runs bigint[], last_ticks bigint[], next_dues bigint[],
    ids uuid[], lanes text[], priorities integer[], created bigint[], dues bigint[], bodies text[],
    overlap_keys text[], running_keys text[], staged boolean[]
);
