-- One execution, by the rules of the port: duplicate, unique_taken, skipped or added. The unique indexes decide which
-- row gets a key; a refused row is tried once more if the holder has gone meanwhile.
CREATE OR REPLACE FUNCTION mainspring.insert_one(r mainspring.incoming, now bigint, OUT outcome text, OUT holder uuid)
LANGUAGE plpgsql AS $$
DECLARE
    job integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = r.job_id);
    slots integer := greatest(coalesce(r.slots, 1), 1);
    wanted text := r.overlap_key;
    same boolean := r.running_overlap_key = r.overlap_key;
    slot integer := 0;
    found_id uuid;
BEGIN
    IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id)
        OR EXISTS (SELECT FROM mainspring.history h WHERE h.id = r.id) THEN
        outcome := 'duplicate';
        RETURN;
    END IF;
    IF r.state NOT IN ('pending', 'running', 'waiting') THEN
        outcome := CASE WHEN mainspring.insert_finished(r, job) THEN 'added' ELSE 'duplicate' END;
        RETURN;
    END IF;
    FOR try IN 1..100 * slots LOOP
        EXIT WHEN slot = slots;
        IF wanted IS NOT NULL AND slots > 1 THEN
            r.overlap_key := wanted || '#' || slot;
            r.running_overlap_key := CASE WHEN same THEN r.overlap_key ELSE r.running_overlap_key END;
        END IF;
        IF mainspring.insert_live(r, job, now) THEN
            holder := NULL;
            IF EXISTS (SELECT FROM mainspring.history h WHERE h.id = r.id) THEN
                DELETE FROM mainspring.live WHERE id = r.id;
                outcome := 'duplicate';
            ELSE
                outcome := 'added';
            END IF;
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM mainspring.live l WHERE l.id = r.id) THEN
            outcome := 'duplicate';
            RETURN;
        END IF;
        SELECT l.id INTO found_id FROM mainspring.live l WHERE l.unique_key = r.unique_key;
        IF FOUND THEN
            outcome := 'unique_taken';
            holder := found_id;
            RETURN;
        END IF;
        SELECT l.id INTO found_id FROM mainspring.live l WHERE l.overlap_key = r.overlap_key;
        IF FOUND THEN
            holder := coalesce(holder, found_id);
            slot := slot + 1;
        END IF;
    END LOOP;
    r.overlap_key := wanted;
    r.running_overlap_key := CASE WHEN same THEN wanted ELSE r.running_overlap_key END;
    r.state := 'skipped'; r.reason := 'overlap'; r.finished := r.created;
    r.owner := NULL; r.lease := NULL; r.claimed := NULL; r.started := NULL; r.staged := false;
    outcome := 'skipped';
    IF NOT mainspring.insert_finished(r, job) THEN
        outcome := 'duplicate';
        holder := NULL;
    END IF;
END
$$;
