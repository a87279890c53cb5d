-- Triggers other than `enqueue`, which nearly all executions have. (Endings of executions that are gone are not known by
-- trigger: those counts begin with what is left.)
ALTER TABLE mainspring_executions ADD COLUMN rare_trigger TEXT;  -- NULL: enqueue

UPDATE mainspring_executions SET rare_trigger = json_extract(body, '$.trigger')
WHERE coalesce(json_extract(body, '$.trigger'), 'enqueue') <> 'enqueue';

CREATE INDEX mainspring_executions_trigger ON mainspring_executions (rare_trigger, id) WHERE rare_trigger IS NOT NULL;
CREATE INDEX mainspring_executions_job_trigger ON mainspring_executions (job_id, rare_trigger, id)
    WHERE rare_trigger IS NOT NULL;

-- How many executions of a job ended, by trigger and state ("schedule:completed"). Kept as the totals are.
CREATE TABLE mainspring_endings (
    job_id TEXT NOT NULL,
    ending TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, ending)
) WITHOUT ROWID;

INSERT INTO mainspring_endings (job_id, ending, count)
SELECT history.job_id, coalesce(rare_trigger, 'enqueue') || ':' || state, count(*)
FROM mainspring_history AS history CROSS JOIN mainspring_executions AS execution ON execution.seq = history.seq
GROUP BY 1, 2;

-- Shares. Ready rows of a lane are claimed by priority, tag and id. A row without a share has tag 0; one with a share is
-- in a lane of its own kind (queue/handler//fair) and comes into phase 1 when it gets its tag, never before.
ALTER TABLE mainspring_live ADD COLUMN share TEXT;
ALTER TABLE mainspring_live ADD COLUMN tag INTEGER NOT NULL DEFAULT 0;

DROP INDEX mainspring_live_ready;
CREATE INDEX mainspring_live_ready ON mainspring_live (lane, priority DESC, tag, id) WHERE phase = 1;
CREATE INDEX mainspring_live_share ON mainspring_live (lane, share, priority, tag)
    WHERE share IS NOT NULL AND phase = 1;

-- Limits. One more phase, 4: pending and parked; `parked` is "slot:" or "token:" and the key that it waits for.
ALTER TABLE mainspring_live ADD COLUMN parked TEXT;

CREATE INDEX mainspring_live_parked ON mainspring_live (parked, priority DESC, tag, id) WHERE parked IS NOT NULL;

-- Which running rows hold a slot of which key: one row each, written and deleted with the phase of the row.
CREATE TABLE mainspring_slots (
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) WITHOUT ROWID;

-- Token buckets that are not full: what they held at an instant, and the numbers they were counted with.
CREATE TABLE mainspring_buckets (
    key   TEXT PRIMARY KEY,
    level REAL NOT NULL,
    since INTEGER NOT NULL,
    rate  REAL NOT NULL,
    burst INTEGER NOT NULL
) WITHOUT ROWID;

-- What rows are parked for, and when to look whether there is room.
CREATE TABLE mainspring_waits (
    parked TEXT PRIMARY KEY,
    look   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX mainspring_waits_look ON mainspring_waits (look);
