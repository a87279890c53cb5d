-- Puts or removes an entry if the stored version is the one seen: 0 for none, NULL for any.
CREATE OR REPLACE FUNCTION mainspring.write_entry(w mainspring.entry, seen bigint, remove boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF remove THEN
        DELETE FROM mainspring.entry s
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND (seen IS NULL OR s.version = seen);
        RETURN FOUND OR seen IS NULL;
    END IF;
    IF seen = 0 THEN
        INSERT INTO mainspring.entry VALUES (w.kind, w.scope, w.key, 1, w.body) ON CONFLICT DO NOTHING;
    ELSIF seen IS NULL THEN
        INSERT INTO mainspring.entry AS s VALUES (w.kind, w.scope, w.key, 1, w.body)
        ON CONFLICT ON CONSTRAINT entry_pkey DO UPDATE SET version = s.version + 1, body = excluded.body;
    ELSE
        UPDATE mainspring.entry s SET version = s.version + 1, body = w.body
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND s.version = seen;
    END IF;
    RETURN FOUND;
END
$$;
