-- Makes rows ready that have become due: a bounded number at once, so that a million rows due at the same instant
-- delay no claim. `upcoming` is when the next row will be due, `fair` are those that need a tag.
CREATE OR REPLACE FUNCTION mainspring.promote(now bigint, OUT upcoming bigint, OUT fair uuid[]) LANGUAGE plpgsql
AS $$
BEGIN
    upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    IF upcoming <= now THEN
        WITH promoted AS (
            UPDATE mainspring.live SET phase = 1, blocked = false
            WHERE ctid = ANY (ARRAY(
                SELECT l.ctid FROM mainspring.live l WHERE l.phase = 0 AND l.due <= now ORDER BY l.due LIMIT 1000
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id, share
        )
        SELECT array_agg(p.id) FILTER (WHERE p.share IS NOT NULL) INTO fair FROM promoted p;
        upcoming := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
    END IF;
END
$$;
