-- Whether every lane has enough ready rows at the same priority, as in a backlog: then the lanes simply take turns,
-- and no more rows are read than are wanted.
CREATE OR REPLACE FUNCTION mainspring.is_even(lanes text[], wanted integer) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    each integer := (wanted + cardinality(lanes) - 1) / cardinality(lanes);
    level integer;
    best integer;
    worst integer;
    this_lane text;
BEGIN
    FOREACH this_lane IN ARRAY lanes LOOP
        best := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                 ORDER BY l.priority DESC, l.id LIMIT 1);
        worst := (SELECT l.priority FROM mainspring.live l WHERE l.phase = 1 AND l.lane = this_lane
                  ORDER BY l.priority DESC, l.id OFFSET each - 1 LIMIT 1);
        IF worst IS DISTINCT FROM best OR best IS DISTINCT FROM coalesce(level, best) THEN
            RETURN false;
        END IF;
        level := best;
    END LOOP;
    RETURN true;
END
$$;
