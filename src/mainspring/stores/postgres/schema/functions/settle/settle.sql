-- Any changes. When some end rows and others do not, all rows are locked first, in the order of their ids. Keys of
-- limits are locked last.
CREATE OR REPLACE FUNCTION mainspring.settle(
    batch mainspring.changes, now bigint, OUT applied integer[], OUT freed boolean, OUT fair uuid[],
    OUT woken uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    left_limits text[];
    left_keys text[];
    waited uuid[];
    waited_keys text[];
    lasting record;
BEGIN
    IF batch.flags IS NOT NULL THEN
        SELECT array_agg(x.id) FILTER (WHERE x.parked IS NOT NULL),
            array_agg(x.parked) FILTER (WHERE x.parked IS NOT NULL)
        INTO waited, waited_keys
        FROM (SELECT l.id, l.parked FROM mainspring.live l WHERE l.id = ANY (batch.ids) ORDER BY l.id FOR UPDATE) x;
    END IF;
    SELECT s.applied, s.freed, s.fair, s.left_limits, s.left_keys INTO applied, freed, fair, left_limits, left_keys
    FROM mainspring.settle_final(batch, now) s;
    IF batch.flags IS NOT NULL THEN
        SELECT * INTO lasting FROM mainspring.settle_live(batch, now);
        applied := applied || lasting.applied;
        fair := fair || lasting.fair;
        left_limits := left_limits || lasting.left_limits;
        IF waited IS NOT NULL THEN
            SELECT left_keys || array_agg(w.key) INTO left_keys FROM unnest(waited, waited_keys) w (id, key)
            WHERE EXISTS (SELECT FROM unnest(applied) a (n) WHERE batch.ids[a.n] = w.id);
        END IF;
    END IF;
    IF left_limits IS NOT NULL OR left_keys IS NOT NULL THEN
        woken := mainspring.leave(left_limits, left_keys);
    END IF;
    IF batch.audits IS NOT NULL THEN
        PERFORM mainspring.write_audits((
            SELECT json_agg(a.audit) FROM json_array_elements(batch.audits) WITH ORDINALITY a (audit, n)
            WHERE a.n = ANY (applied) AND json_typeof(a.audit) = 'object'
        ));
    END IF;
END
$$;
