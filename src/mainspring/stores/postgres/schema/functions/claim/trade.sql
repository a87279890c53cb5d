-- Of rows locked by this claim, in this order, the staged ones trade their keys for the running ones, one by one; the
-- others are claimed already. Returns all of them as JSON.
CREATE OR REPLACE FUNCTION mainspring.trade(
    picked uuid[], trading uuid[], new_owner text, stamp bigint, until bigint, now bigint,
    OUT claimed text, OUT blocked text
) LANGUAGE plpgsql AS $$
DECLARE
    one uuid;
    held uuid;
    holders uuid[] := '{}';
BEGIN
    FOREACH one IN ARRAY trading LOOP
        held := mainspring.claim_staged(one, new_owner, stamp, until, now);
        holders := holders || held;
    END LOOP;
    SELECT string_agg(mainspring.as_json(l), ',' ORDER BY p.n) FILTER (WHERE l.phase = 2),
           string_agg('[' || mainspring.as_json(l) || ',' || coalesce(to_json(s.holder)::text, 'null') || ']',
               ',' ORDER BY p.n)
               FILTER (WHERE l.phase = 0)
    INTO claimed, blocked
    FROM unnest(picked) WITH ORDINALITY p (id, n)
    JOIN mainspring.live l ON l.id = p.id
    LEFT JOIN unnest(trading, holders) s (id, holder) ON s.id = p.id
    WHERE l.id = ANY (picked);
END
$$;
