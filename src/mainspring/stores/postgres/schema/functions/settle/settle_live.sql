-- Changes that leave the row alive, one by one. `applied` are the positions of those applied, `left_limits` the limits
-- of rows that ran until now, `fair` those that need a tag.
CREATE OR REPLACE FUNCTION mainspring.settle_live(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT left_limits text[], OUT fair uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    c record;
    later bigint;
    settled record;
BEGIN
    FOR c IN
        SELECT * FROM unnest(
            batch.ids, batch.expects, batch.tokens, batch.owners, batch.states, batch.failures, batch.crashes,
            batch.delays, batch.starts, batch.attempts, batch.reasons, batch.errors, batch.results, batch.counters,
            batch.metadata, batch.flags
        ) WITH ORDINALITY AS x (
            id, expect, token, owner, state, failures, crashes, delay, started, attempt, reason, error, result,
            counters, metadata, flags, n
        ) WHERE x.flags & 1 = 1
    LOOP
        later := now + coalesce(c.delay, 0);
        UPDATE mainspring.live l SET
            phase = mainspring.phase_of(c.state, later, now),
            lane = CASE WHEN l.alone = (c.flags & 16 = 16) THEN l.lane
                        ELSE mainspring.in_lane(l.lane, c.flags & 16 = 16) END,
            tag = NULL, parked = NULL, for_token = NULL,
            due = CASE WHEN c.state = 'pending' THEN later ELSE l.due END,
            owner = NULL, lease = NULL, blocked = false, alone = c.flags & 16 = 16,
            claimed = CASE WHEN c.state = 'pending' THEN NULL ELSE l.claimed END,
            progress = CASE WHEN c.state = 'pending' THEN NULL ELSE l.progress END,
            started = coalesce(c.started, l.started), failures = coalesce(c.failures, 0),
            crashes = coalesce(c.crashes, 0), attempts = mainspring.with_attempt(l.attempts, c.attempt),
            reason = c.reason, error = c.error, result = coalesce(c.result, l.result),
            counters = coalesce(c.counters, l.counters), metadata = coalesce(c.metadata, l.metadata)
        WHERE l.id = c.id AND l.token = c.token AND greatest(l.phase, 1::smallint) = coalesce(c.expect, 2::smallint)
            AND l.owner IS NOT DISTINCT FROM c.owner AND (c.flags & 8 = 0 OR (l.phase = 2 AND l.lease <= now))
        RETURNING l.id, l.job_key, l.phase, l.share, l.limits INTO settled;
        IF FOUND THEN
            applied := applied || c.n::integer;
            IF c.flags & 8 = 8 THEN
                INSERT INTO mainspring.delta (job_key, rescued) VALUES (settled.job_key, 1);
            END IF;
            IF settled.share IS NOT NULL AND settled.phase = 1 THEN
                fair := fair || settled.id;
            END IF;
            IF settled.limits IS NOT NULL AND coalesce(c.expect, 2::smallint) = 2 THEN
                left_limits := left_limits || settled.limits;
            END IF;
        END IF;
    END LOOP;
END
$$;
