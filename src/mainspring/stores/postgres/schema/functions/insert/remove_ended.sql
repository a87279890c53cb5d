-- Removes rows just inserted whose ids have ended before, and returns their ids. History is searched after the insert,
-- because a row that ended in between has left the live table and is in history by now. New ids are of the last
-- moments, in which hardly anything else has ended: searching the range they span is usually enough.
CREATE OR REPLACE FUNCTION mainspring.remove_ended(added uuid[], low uuid, high uuid) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
    ended uuid[];
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.history h WHERE h.id >= low AND h.id <= high) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(h.id) INTO ended
    FROM mainspring.history h WHERE h.id >= low AND h.id <= high AND h.id = ANY (added);
    IF ended IS NOT NULL THEN
        DELETE FROM mainspring.live WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END
$$;

CREATE OR REPLACE FUNCTION mainspring.remove_ended(added uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT mainspring.remove_ended(x.ids, x.ids[1], x.ids[cardinality(x.ids)])
        FROM (SELECT array_agg(a.id ORDER BY a.id) AS ids FROM unnest(added) a (id)) x
    );
END
$$;
