-- Rows that a claim deferred because of a key that is free now become ready. Rows that another transaction has locked
-- are skipped: it is about to change them, and will see the free key. `fair` are rows with a share, which need a tag.
CREATE OR REPLACE FUNCTION mainspring.unblock(
    unique_keys text[], overlap_keys text[], now bigint, OUT freed boolean, OUT fair uuid[]
)
LANGUAGE plpgsql AS $$
BEGIN
    WITH unblocked AS (
        UPDATE mainspring.live SET phase = 1, due = now, blocked = false
        WHERE ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.blocked AND l.due > now AND l.running_unique_key = ANY (unique_keys)
            FOR UPDATE SKIP LOCKED
        )) OR ctid = ANY (ARRAY(
            SELECT l.ctid FROM mainspring.live l
            WHERE l.blocked AND l.due > now AND l.running_overlap_key = ANY (overlap_keys)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, share
    )
    SELECT count(*) > 0, array_agg(u.id) FILTER (WHERE u.share IS NOT NULL) INTO freed, fair FROM unblocked u;
END
$$;
