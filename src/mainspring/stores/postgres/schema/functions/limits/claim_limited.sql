-- Claims from lanes of every kind. `taken` equals `wanted` when rows became ready during the claim.
CREATE OR REPLACE FUNCTION mainspring.claim_limited(
    lanes text[], new_owner text, stamp bigint, until bigint, wanted integer, turn integer, now bigint,
    OUT claimed text, OUT blocked text, OUT taken integer, OUT woken uuid[], OUT contended boolean
) LANGUAGE plpgsql
    SET enable_nestloop = on
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    picked uuid[];
    claimable uuid[];
    judged record;
BEGIN
    IF cardinality(lanes) = 1 THEN
        SELECT array_agg(f.id ORDER BY f.nth) INTO picked FROM mainspring.lock_front(lanes[1], wanted) f;
    ELSE
        WITH seat AS MATERIALIZED (
            SELECT o.lane, o.n, row_number() OVER (PARTITION BY o.lane ORDER BY o.n) AS nth
            FROM unnest(mainspring.limited_turns(lanes, wanted, turn)) WITH ORDINALITY o (lane, n)
        ), best AS MATERIALIZED (
            SELECT q.lane, f.id, f.nth
            FROM (SELECT s.lane, max(s.nth) AS rows FROM seat s GROUP BY s.lane) q
            CROSS JOIN LATERAL mainspring.lock_front(q.lane, q.rows) f
        )
        SELECT array_agg(b.id ORDER BY s.n) INTO picked FROM best b JOIN seat s ON s.lane = b.lane AND s.nth = b.nth;
    END IF;
    taken := coalesce(cardinality(picked), 0);
    contended := false;
    IF picked IS NULL THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (picked) AND (l.staged OR l.limits IS NOT NULL)) THEN
        SELECT * INTO judged FROM mainspring.judge(picked, new_owner, stamp, until, now);
        claimable := judged.claimable;
        woken := judged.woken;
        contended := judged.left_ready > 0;
        taken := CASE WHEN woken IS NULL THEN taken - judged.left_ready ELSE wanted END;
        SELECT string_agg(
            '[' || mainspring.as_json(l) || ',' || coalesce(to_json(b.holder)::text, 'null') || ']', ',' ORDER BY b.n
        ) INTO blocked
        FROM unnest(judged.blocked, judged.holders) WITH ORDINALITY b (id, holder, n)
            JOIN mainspring.live l ON l.id = b.id;
    ELSE
        claimable := picked;
    END IF;
    UPDATE mainspring.live l SET
        phase = 2, token = mainspring.next_token(l.token, stamp), owner = new_owner, lease = until,
        claimed = now, started = coalesce(l.started, now), tag = NULL, parked = NULL, for_token = NULL, line = NULL,
        place = NULL
    WHERE l.id = ANY (claimable);
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) INTO claimed
    FROM unnest(picked) WITH ORDINALITY p (id, n) JOIN mainspring.live l ON l.id = p.id
    WHERE greatest(l.phase, 0::smallint) = 2;
    IF woken IS NOT NULL THEN
        UPDATE mainspring.live l SET phase = 1 WHERE l.id = ANY (woken) AND l.share IS NOT NULL;
        PERFORM mainspring.give_tags(woken);
    END IF;
END
$$;
