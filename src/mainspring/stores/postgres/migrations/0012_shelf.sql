-- The shelf: small durable records beside jobs and executions, known by kind, scope and key.

CREATE TABLE mainspring.shelf (
    kind    text COLLATE "C" NOT NULL,
    scope   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (kind, scope, key)
);

-- Puts or removes an entry where the stored version is the one seen: 0 for none, NULL for whatever is there.
CREATE FUNCTION mainspring.shelve_one(w mainspring.shelf, seen bigint, remove boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF remove THEN
        DELETE FROM mainspring.shelf s
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND (seen IS NULL OR s.version = seen);
        RETURN FOUND OR seen IS NULL;
    END IF;
    IF seen = 0 THEN
        INSERT INTO mainspring.shelf VALUES (w.kind, w.scope, w.key, 1, w.body) ON CONFLICT DO NOTHING;
    ELSIF seen IS NULL THEN
        INSERT INTO mainspring.shelf AS s VALUES (w.kind, w.scope, w.key, 1, w.body)
        ON CONFLICT ON CONSTRAINT shelf_pkey DO UPDATE SET version = s.version + 1, body = excluded.body;
    ELSE
        UPDATE mainspring.shelf s SET version = s.version + 1, body = w.body
        WHERE s.kind = w.kind AND s.scope = w.scope AND s.key = w.key AND s.version = seen;
    END IF;
    RETURN FOUND;
END
$$;

-- `writes` are [{entry, seen, remove, audit, n}, ...]. Returns the positions of those that won. Entries are written in the
-- order of their keys, whoever writes, so that two never wait for each other; writes of one entry in the order given.
CREATE FUNCTION mainspring.shelve(writes json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    one record;
    won integer[] := '{}';
BEGIN
    FOR one IN
        SELECT x.*
        FROM json_to_recordset(writes) AS x (
            entry mainspring.shelf, seen bigint, remove boolean, audit json, n integer
        )
        ORDER BY (x.entry).kind, (x.entry).scope, (x.entry).key, x.n
    LOOP
        CONTINUE WHEN NOT mainspring.shelve_one(one.entry, one.seen, one.remove);
        won := won || one.n;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
    END LOOP;
    RETURN won;
END
$$;
