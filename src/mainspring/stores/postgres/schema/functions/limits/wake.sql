-- Makes the first rows of each wait line ready again: `most`, but no more than its numbers allow when so many slots
-- are `used`, or the bucket held this much; NULL stands for as many as they allow. Rows with a share are promoted
-- next, and get their tags then. The caller has locked the key. A row that another transaction has locked is about to
-- end.
CREATE OR REPLACE FUNCTION mainspring.wake(
    of_key text, with_token boolean, most bigint, used integer, level double precision, since bigint, now bigint
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, with_token, '');
    room bigint;
    ids uuid[];
    woken uuid[];
BEGIN
    WHILE this_line IS NOT NULL LOOP
        IF with_token THEN
            room := least(most, mainspring.tokens_in(mainspring.level_by(this_line, level, since, now)));
        ELSE
            room := least(most, split_part(this_line, ' ', 1)::integer - used);
        END IF;
        IF room > 0 THEN
            WITH ready AS (
                UPDATE mainspring.live l SET
                    phase = CASE WHEN l.share IS NULL THEN 1 ELSE 0 END,
                    due = CASE WHEN l.share IS NULL THEN l.due ELSE least(l.due, now) END
                WHERE l.ctid = ANY (ARRAY(
                    SELECT p.ctid FROM mainspring.live p
                    WHERE p.phase = -1 AND p.parked = of_key AND p.for_token = with_token AND p.line = this_line
                    ORDER BY p.priority DESC, p.place, p.id LIMIT room
                    FOR UPDATE SKIP LOCKED
                ))
                RETURNING l.id
            )
            SELECT array_agg(r.id) INTO ids FROM ready r;
            woken := woken || ids;
        END IF;
        this_line := mainspring.next_line(of_key, with_token, this_line);
    END LOOP;
    RETURN woken;
END
$$;
