-- What an execution was triggered by, for lists and for statistics; and what shares and limits need of each row.

-- NULL: by an enqueue, as nearly all are. Rows finished before this migration say so in their body alone: those up to
-- the id that was the newest then (`meta`) are looked into. To add a column that may be NULL rewrites nothing.
ALTER TABLE mainspring.live ADD COLUMN trigger text COLLATE "C";
ALTER TABLE mainspring.history ADD COLUMN trigger text COLLATE "C";

-- A body is JSON as the client writes it: what is quoted within a text looks different.
CREATE FUNCTION mainspring.trigger_of(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN strpos(body, '"trigger":"') > 0 THEN nullif(substring(body FROM '"trigger":"([^"]*)"'), 'enqueue') END $$;

UPDATE mainspring.live SET trigger = mainspring.trigger_of(body) WHERE strpos(body, '"trigger":"') > 0;

INSERT INTO mainspring.meta
SELECT 'untold_triggers', (('x' || left(replace(h.id::text, '-', ''), 12))::bit(48)::bigint + 1) * 1000
FROM mainspring.history h ORDER BY h.id DESC LIMIT 1;

CREATE INDEX live_trigger ON mainspring.live (trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX history_trigger ON mainspring.history (trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX history_job_trigger ON mainspring.history (job_key, trigger, id) WHERE trigger IS NOT NULL;

-- -------------------------------------------------------------------------------------- shares and limits

-- Rows with a share are in a lane of their own kind, `queue/handler//fair`; rows with limits alone in
-- `queue/handler//limited`, which counts as the lane without that. Those to be run alone have `alone` in between.
-- A row has a tag while it is ready or parked. Parked rows are of phase -1: pending, and in no order of claiming.
ALTER TABLE mainspring.live
    ADD COLUMN share text COLLATE "C",
    ADD COLUMN weight integer,
    ADD COLUMN tag bigint,
    ADD COLUMN limits text,
    ADD COLUMN parked text COLLATE "C",
    ADD COLUMN for_token boolean;

ALTER TYPE mainspring.incoming ADD ATTRIBUTE share text, ADD ATTRIBUTE weight integer, ADD ATTRIBUTE limits text;

CREATE INDEX live_fair ON mainspring.live (lane, priority DESC, tag, id) WHERE phase = 1 AND tag IS NOT NULL;
CREATE INDEX live_share ON mainspring.live (lane, priority, share, tag DESC) WHERE phase = 1 AND tag IS NOT NULL;
CREATE INDEX live_parked ON mainspring.live (parked, for_token, priority DESC, coalesce(tag, 0), id)
    WHERE parked IS NOT NULL;

-- One row for each key that is in use. Whoever judges or frees a key has locked its row. `running` is how many running
-- rows carry the key, `level` how many tokens there were at the instant `since`; rows that wait for a slot or a token are
-- looked at when that look has come.
CREATE TABLE mainspring.limit_state (
    key        text COLLATE "C" PRIMARY KEY,
    running    integer NOT NULL DEFAULT 0,
    level      double precision,
    since      bigint,
    rate       double precision,
    burst      integer,
    slot_look  bigint,
    token_look bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX limit_look ON mainspring.limit_state (least(slot_look, token_look))
    WHERE slot_look IS NOT NULL OR token_look IS NOT NULL;

CREATE OR REPLACE FUNCTION mainspring.as_json(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        CASE r.phase WHEN 2 THEN ',"state":"running"' WHEN 3 THEN ',"state":"waiting"' END,
        mainspring.field('owner', r.owner), mainspring.field('lease', r.lease),
        mainspring.field('claimed', r.claimed), mainspring.field('started', r.started),
        mainspring.field('parked', r.parked), mainspring.rest_of(r)
    )
$$;

-- --------------------------------------------------------------------------------------------- statistics

-- What is not folded yet was triggered by nobody knows what: it is folded before triggers are told apart.
SELECT mainspring.fold(2147483647);

-- Each delta is of one job and one trigger; NULL stands for an enqueue. Endings before this migration are not here.
ALTER TABLE mainspring.delta ADD COLUMN trigger text;

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

CREATE FUNCTION mainspring.fold_triggers(folded mainspring.delta[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.trigger_totals AS t
    SELECT d.job_key, coalesce(d.trigger, 'enqueue') AS told_by, sum(d.completed), sum(d.partial), sum(d.failed),
        sum(d.cancelled), sum(d.skipped)
    FROM unnest(folded) d GROUP BY d.job_key, told_by
    HAVING sum(d.completed + d.partial + d.failed + d.cancelled + d.skipped) > 0
    ORDER BY d.job_key, told_by
    ON CONFLICT (job_key, trigger) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped;
END
$$;

CREATE OR REPLACE FUNCTION mainspring.fold(most integer) RETURNS integer LANGUAGE plpgsql
    SET jit = off
AS $$
DECLARE
    folded mainspring.delta[];
BEGIN
    PERFORM pg_advisory_xact_lock('mainspring.delta'::regclass::oid::bigint);
    WITH taken AS (
        DELETE FROM mainspring.delta WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM mainspring.delta d LIMIT most)) RETURNING *
    )
    SELECT array_agg(t::mainspring.delta) INTO folded FROM taken t;
    IF folded IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO mainspring.totals AS t
    SELECT d.job_key, sum(d.completed), sum(d.partial), sum(d.failed), sum(d.cancelled), sum(d.skipped),
        sum(d.duration_ms), sum(d.timed), sum(d.rescued), NULL, NULL, NULL, NULL, NULL, 0
    FROM unnest(folded) d GROUP BY d.job_key ORDER BY d.job_key
    ON CONFLICT (job_key) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped, duration_ms = t.duration_ms + excluded.duration_ms,
        timed = t.timed + excluded.timed, rescued = t.rescued + excluded.rescued;
    UPDATE mainspring.totals t SET
        last_id = d.last_id, last_state = d.last_state, last_started = d.last_started,
        last_finished = d.last_finished, last_error = d.last_error, last_failures = d.last_failures
    FROM (
        SELECT DISTINCT ON (d.job_key) d.* FROM unnest(folded) d WHERE d.last_id IS NOT NULL
        ORDER BY d.job_key, d.last_id DESC
    ) d
    WHERE t.job_key = d.job_key AND (t.last_id IS NULL OR t.last_id < d.last_id);
    PERFORM mainspring.fold_triggers(folded);
    PERFORM mainspring.give_numbers(folded);
    RETURN cardinality(folded);
END
$$;

-- The id of the job that was deleted, or NULL. What is left of its history is removed in small steps, by purge_some.
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
