-- Parks these rows one after another, in the order given: each place follows from those before.
CREATE OR REPLACE FUNCTION mainspring.park(ids uuid[], keys text[], kinds boolean[], numbers text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    r record;
BEGIN
    UPDATE mainspring.live l SET
        phase = -1, parked = x.key, for_token = x.kind, line = x.numbers || ' ' || l.lane, place = 0
    FROM unnest(ids, keys, kinds, numbers) x (id, key, kind, numbers) WHERE l.id = x.id AND l.share IS NULL;
    FOR r IN
        SELECT l.id, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step, x.key, x.kind,
            x.numbers || ' ' || l.lane AS line,
            CASE WHEN (l.parked, l.for_token, l.line) = (x.key, x.kind, x.numbers || ' ' || l.lane)
                THEN l.place END AS place
        FROM unnest(ids, keys, kinds, numbers) WITH ORDINALITY x (id, key, kind, numbers, n)
        JOIN mainspring.live l ON l.id = x.id WHERE l.share IS NOT NULL ORDER BY x.n
    LOOP
        IF r.place IS NULL THEN
            r.place := greatest(coalesce((
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority
                ORDER BY l.place LIMIT 1
            ), 0), r.step + (
                SELECT l.place FROM mainspring.live l
                WHERE l.phase = -1 AND l.parked = r.key AND l.for_token = r.kind AND l.line = r.line
                    AND l.priority = r.priority AND l.share = r.share
                ORDER BY l.place DESC LIMIT 1
            ));
        END IF;
        UPDATE mainspring.live l SET
            phase = -1, parked = r.key, for_token = r.kind, line = r.line, place = r.place, tag = NULL
        WHERE l.id = r.id;
    END LOOP;
END
$$;
