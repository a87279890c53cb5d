-- Temporary objects of the connection that writes. An exchange is one INSERT into mainspring_exchange: the rows that ended,
-- and last of all the terms, which replace those of number 0. That sets off the triggers, which settle, count and claim in
-- the same step of SQLite. What they cannot do makes them fail, with nothing done: the reason is the word.
CREATE TEMP TABLE mainspring_exchange (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER,
    attempts TEXT,
    tail     TEXT                                    -- as in history; for number 0 the terms, a JSON array
);
INSERT INTO mainspring_exchange (seq) VALUES (0);

CREATE TEMP TABLE mainspring_terms (                 -- there is never more than one row
    settled      INTEGER NOT NULL,                   -- how many have ended
    todo         INTEGER NOT NULL,
    keep         INTEGER NOT NULL,
    owner        TEXT,
    freed        INTEGER NOT NULL,                   -- 1: endings free keys
    totals       TEXT NOT NULL,                      -- JSON, for the statistics: a row for each job
    by_trigger   TEXT NOT NULL,
    incarnations TEXT NOT NULL,
    lanes        TEXT NOT NULL,                      -- all that are expected to have ready rows
    lane         TEXT,                               -- the one to claim from
    most         INTEGER NOT NULL,
    now          INTEGER NOT NULL,
    lease        INTEGER,
    far          INTEGER NOT NULL                    -- a look at what is parked that is later than this is due
);

CREATE TEMP TABLE mainspring_taken (place INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TEMP VIEW mainspring_ready_lanes AS $lanes;

CREATE TEMP TRIGGER mainspring_exchange_agreed AFTER UPDATE ON mainspring_exchange BEGIN
    DELETE FROM mainspring_terms;
    INSERT INTO mainspring_terms VALUES (
        NEW.tail ->> 0, NEW.tail ->> 1, NEW.tail ->> 2, NEW.tail ->> 3, NEW.tail ->> 4, NEW.tail -> 5, NEW.tail -> 6,
        NEW.tail -> 7, NEW.tail ->> 8, NEW.tail ->> 9, NEW.tail ->> 10, NEW.tail ->> 11, NEW.tail ->> 12, NEW.tail ->> 13
    );
END;

CREATE TEMP TRIGGER mainspring_exchange_done AFTER INSERT ON mainspring_terms BEGIN
    SELECT RAISE(ABORT, 'lanes') WHERE NEW.lanes IS NOT (SELECT names FROM mainspring_ready_lanes);
    SELECT RAISE(ABORT, 'due')
    WHERE (SELECT due FROM mainspring_live WHERE phase = 0 ORDER BY due LIMIT 1) <= NEW.now
        OR (SELECT look <= NEW.now OR look > NEW.far FROM mainspring_waits ORDER BY look LIMIT 1);
    SELECT RAISE(ABORT, 'blocked') WHERE NEW.freed
        AND EXISTS (SELECT 1 FROM mainspring_live INDEXED BY mainspring_live_blocked_unique WHERE blocked = 1);

    -- Settle, as in history_move.sql. (The limits here and below are never reached. Of a table without statistics SQLite
    -- expects a million rows, and would read all of mainspring_live first to make a filter for them.)
    INSERT INTO mainspring_history ($moved)
    SELECT
        live.seq, live.id, live.job_id, 'completed', live.started, ended.at, NEW.todo, NEW.keep, live.parent_id,
        live.due, live.token, live.claimed, live.unique_key, live.overlap_key, ended.attempts, ended.tail
    FROM (SELECT * FROM mainspring_exchange LIMIT 10000) AS ended CROSS JOIN mainspring_live AS live ON live.seq = ended.seq
    WHERE live.owner = NEW.owner AND $untold;
    SELECT RAISE(ABORT, 'fence') WHERE changes() <> NEW.settled;
    DELETE FROM mainspring_live WHERE seq IN (SELECT seq FROM mainspring_exchange);
    DELETE FROM mainspring_exchange WHERE seq <> 0;

    -- Count.
    INSERT INTO mainspring_totals ($totals)
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14
    FROM json_each(NEW.totals) WHERE true
    $totals_merge;
    INSERT INTO mainspring_endings (job_id, ending, count)
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(NEW.by_trigger) WHERE true
    $endings_merge;
    UPDATE mainspring_incarnations SET ended = ended + (
        SELECT value ->> 1 FROM json_each(NEW.incarnations) WHERE value ->> 0 = mainspring_incarnations.job_id
    )
    WHERE job_id IN (SELECT value ->> 0 FROM json_each(NEW.incarnations));

    -- Claim rows that nothing has happened to and that have no limits. (In a JSON text no quote stands unescaped, so the
    -- name of that field cannot be part of a value.)
    DELETE FROM mainspring_taken;
    INSERT INTO mainspring_taken (seq)
    SELECT seq FROM mainspring_live WHERE phase = 1 AND lane = NEW.lane
    ORDER BY priority DESC, tag, id LIMIT (SELECT most FROM mainspring_terms);
    SELECT RAISE(ABORT, 'not plain')
    FROM (SELECT seq FROM mainspring_taken LIMIT 10000) AS taken
    CROSS JOIN mainspring_live AS live ON live.seq = taken.seq
    CROSS JOIN mainspring_executions AS execution ON execution.seq = taken.seq
    WHERE instr(body, '"limits":') OR NOT ($plain);
    UPDATE mainspring_live SET
        phase = 2, token = 1, owner = NEW.owner, lease = NEW.lease, claimed = NEW.now, started = NEW.now
    WHERE seq IN (SELECT seq FROM mainspring_taken);
END;
