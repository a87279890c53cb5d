-- Claims on from where the last claim of this connection ended, if nothing of a higher priority and no other lane has
-- become ready.
CREATE OR REPLACE FUNCTION mainspring.claim_onward(
    new_owner text, stamp bigint, handlers text[], queues text[], until bigint, wanted integer, now bigint,
    OUT claimed text, OUT taken integer
) LANGUAGE plpgsql
    SET seq_page_cost = 0
    SET random_page_cost = 0
AS $$
DECLARE
    mark text[] := string_to_array(current_setting('mainspring.claimed_up_to', true), chr(30));
    since bigint := mark[1];
    its_priority integer := mark[2];
    after uuid := mark[3];
    its_lane text := mark[4];
    last uuid;
    same text := concat(
        ',"state":"running","owner":', to_json(new_owner)::text, ',"lease":', until, ',"claimed":', now
    );
BEGIN
    taken := 0;
    IF its_lane IS NULL OR now NOT BETWEEN since AND since + 200000
        OR split_part(its_lane, '/', 2) <> ALL (handlers) OR split_part(its_lane, '/', 1) <> ALL (queues)
        OR ((
            EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane < its_lane)
            OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane > its_lane)
        ) AND mainspring.other_lanes(handlers, queues, its_lane) IS NOT NULL)
        OR EXISTS (SELECT FROM mainspring.live l WHERE l.phase = 1 AND l.lane = its_lane AND l.priority > its_priority)
    THEN
        RETURN;
    END IF;
    WITH best AS MATERIALIZED (
        SELECT l.ctid AS place, l.id FROM mainspring.live l
        WHERE l.phase = 1 AND l.phase < 2 AND l.lane = its_lane AND l.priority = its_priority AND l.id > after
            AND NOT l.staged AND l.xmax = '0'::xid
        ORDER BY l.id LIMIT wanted
        FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE mainspring.live l SET
            phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
            claimed = now, started = coalesce(l.started, now)
        WHERE l.ctid = ANY (ARRAY(SELECT place FROM best))
        RETURNING l.id, mainspring.as_claimed(l, same) AS text
    )
    SELECT string_agg(m.text, ',' ORDER BY m.id), count(*), (SELECT b.id FROM best b ORDER BY b.id DESC LIMIT 1)
    INTO claimed, taken, last FROM mine m;
    IF taken = wanted THEN
        PERFORM mainspring.remember(since, its_priority, last, its_lane);
    ELSE
        PERFORM set_config('mainspring.claimed_up_to', '', false);
    END IF;
END
$$;
