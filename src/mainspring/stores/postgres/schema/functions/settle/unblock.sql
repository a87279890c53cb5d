-- Keys are free: of the first rows that a claim deferred because of each, the first of each lane becomes ready. Rows that
-- another transaction has locked are skipped: it is about to change them, and will see the free key. `fair` are rows
-- with a share, which need a tag.
CREATE OR REPLACE FUNCTION mainspring.unblock(
    unique_keys text[], overlap_keys text[], now bigint, OUT freed boolean, OUT fair uuid[]
)
LANGUAGE plpgsql AS $$
BEGIN
    WITH first AS (
        SELECT DISTINCT ON (k.key, replace(w.lane, '//limited', '')) w.id
        FROM unnest(unique_keys) k (key) CROSS JOIN LATERAL (
            SELECT l.id, l.lane, l.priority FROM mainspring.live l
            WHERE l.blocked AND l.running_unique_key = k.key AND l.due > now
            ORDER BY l.priority DESC, l.id LIMIT 20
        ) w ORDER BY k.key, replace(w.lane, '//limited', ''), w.priority DESC, w.id
    ), first_overlap AS (
        SELECT DISTINCT ON (k.key, replace(w.lane, '//limited', '')) w.id
        FROM unnest(overlap_keys) k (key) CROSS JOIN LATERAL (
            SELECT l.id, l.lane, l.priority FROM mainspring.live l
            WHERE l.blocked AND l.running_overlap_key = k.key AND l.due > now
            ORDER BY l.priority DESC, l.id LIMIT 20
        ) w ORDER BY k.key, replace(w.lane, '//limited', ''), w.priority DESC, w.id
    ), unblocked AS (
        UPDATE mainspring.live SET phase = 1, due = now, blocked = false
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.id = ANY (ARRAY(SELECT f.id FROM first f UNION SELECT o.id FROM first_overlap o))
                AND l.blocked AND l.due > now
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, share
    )
    SELECT count(*) > 0, array_agg(u.id) FILTER (WHERE u.share IS NOT NULL) INTO freed, fair FROM unblocked u;
END
$$;
