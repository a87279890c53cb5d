-- Live rows and finished ones apart: what claims, vacuum and partial indexes work on stays small for ever.
-- Files are written for the schema "mainspring"; another name takes its place when they are read.
-- Instants are whole microseconds since the epoch, UTC. JSON is text, opaque to the database.

CREATE TABLE mainspring.meta (
    key   text PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO mainspring.meta VALUES ('schema', 0), ('partitions', 0);

-- The store's clock: every due time and lease is judged by it. Tests replace this function in a schema of their own.
CREATE FUNCTION mainspring.now_micros() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE FUNCTION mainspring.as_time(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond' $$;

-- The smallest id made in the millisecond of that instant: ids are ordered by time.
CREATE FUNCTION mainspring.id_at(micros bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(micros, 0) / 1000), 12, '0') || repeat('0', 20))::uuid $$;

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
    defaults   text NOT NULL         -- what mainspring.enqueue fills in: handler, queue, parameters, policy, ...
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

-- Jobs deleted with their history: what is left of it is removed in small steps.
CREATE TABLE mainspring.purge (
    job_key integer PRIMARY KEY
);

-- ---------------------------------------------------------------------------------------------- executions

-- `body` is a JSON object without its closing brace: what never changes after the insert. Only rows in the right
-- phase are in the larger indexes, so that a claim writes three index entries and an ending none.
CREATE TABLE mainspring.live (
    id                  uuid NOT NULL,
    created             bigint NOT NULL,
    due                 bigint NOT NULL,
    lease               bigint,
    claimed             bigint,
    started             bigint,
    cancel_requested    bigint,
    number              bigint,
    token               integer NOT NULL DEFAULT 0,
    job_key             integer NOT NULL,
    priority            integer NOT NULL,
    failures            integer NOT NULL DEFAULT 0,
    crashes             integer NOT NULL DEFAULT 0,
    phase               smallint NOT NULL,           -- 0 pending, in the future; 1 pending, ready; 2 running; 3 waiting
    alone               boolean NOT NULL DEFAULT false,
    staged              boolean NOT NULL DEFAULT false,
    blocked             boolean NOT NULL DEFAULT false,  -- deferred because a running key was held
    stray               boolean NOT NULL DEFAULT false,  -- its id does not tell when it was created
    lane                text COLLATE "C" NOT NULL,   -- queue/handler, or queue/handler/alone
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
    CONSTRAINT live_id PRIMARY KEY (id) WITH (fillfactor = 45)  -- room for the entry that a claim adds
) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX live_scheduled ON mainspring.live (due) WHERE phase = 0;
CREATE INDEX live_ready ON mainspring.live (lane, priority DESC, id) WHERE phase = 1;
CREATE INDEX live_pending ON mainspring.live (job_key, id) WHERE phase < 2;
CREATE INDEX live_active ON mainspring.live (job_key, id) WHERE phase >= 2;
CREATE UNIQUE INDEX live_unique ON mainspring.live (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX live_overlap ON mainspring.live (overlap_key) WHERE overlap_key IS NOT NULL;
CREATE INDEX live_blocked_unique ON mainspring.live (running_unique_key) WHERE blocked;
CREATE INDEX live_blocked_overlap ON mainspring.live (running_overlap_key) WHERE blocked;
CREATE INDEX live_cancel ON mainspring.live (owner, id) WHERE cancel_requested IS NOT NULL;
CREATE INDEX live_parent ON mainspring.live (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX live_tenant ON mainspring.live (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX live_trace ON mainspring.live (foreign_trace, id) WHERE foreign_trace IS NOT NULL;
CREATE INDEX live_stray ON mainspring.live (created, id) WHERE stray;

-- Partitioned by id, that is by the time of creation: an id finds its partition by itself.
CREATE TABLE mainspring.history (
    id               uuid NOT NULL,
    created          bigint NOT NULL,
    due              bigint NOT NULL,
    claimed          bigint,
    started          bigint,
    finished         bigint,
    tried            bigint,                         -- the usual end: one try, completed; it began then, and its
    tried_cpu        double precision,               -- attempt is told by these three in place of `attempts`
    cancel_requested bigint,
    number           bigint,                         -- NULL: given by `fold`, see mainspring.numbers
    token            integer NOT NULL,
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

-- Insert-only: what one settled batch adds to each of its jobs. `fold` merges it into the totals within seconds.
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
    dropped       integer NOT NULL DEFAULT 0         -- how many more use up a number, though no row of theirs is kept
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

-- ------------------------------------------------------------------------------------- workers, locks, audit

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
