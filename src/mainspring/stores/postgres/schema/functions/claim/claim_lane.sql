-- Claims from the front of one lane, whose rows have neither a share nor limits.
CREATE OR REPLACE FUNCTION mainspring.claim_lane(
    its_lane text, new_owner text, stamp bigint, until bigint, wanted integer, now bigint,
    OUT claimed text, OUT blocked text, OUT taken integer
) LANGUAGE plpgsql AS $$
DECLARE
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
    picked uuid[];
    trading uuid[];
    lowest integer;
BEGIN
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id, l.priority, l.staged FROM mainspring.live l
        WHERE l.phase = 1 AND l.lane = its_lane ORDER BY l.priority DESC, l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best WHERE NOT best.staged))
        RETURNING l.priority, l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT (SELECT string_agg(m.text, ',' ORDER BY m.priority DESC, m.id) FROM mine m),
        array_agg(b.id), array_agg(b.id) FILTER (WHERE b.staged), min(b.priority)
    INTO claimed, picked, trading, lowest FROM best b;
    taken := coalesce(cardinality(picked), 0);
    IF trading IS NOT NULL THEN
        SELECT t.claimed, t.blocked INTO claimed, blocked
        FROM mainspring.trade(picked, trading, new_owner, stamp, until, now) t;
    ELSIF taken = wanted AND wanted >= mainspring.backlog() THEN
        PERFORM mainspring.remember(now, lowest, picked[wanted], its_lane);
    END IF;
END
$$;
