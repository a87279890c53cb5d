-- Live rows that ask for no key, all in one statement. Returns the ids that existed already.
CREATE OR REPLACE FUNCTION mainspring.insert_keyless(rows mainspring.incoming[], now bigint) RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
    added uuid[];
    ended uuid[];
BEGIN
    FOR try IN 1..2 LOOP
        WITH inserted AS (
            INSERT INTO mainspring.live (
                id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
                token, owner, lease, claimed, started, failures, crashes, alone, staged, running_unique_key,
                running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result, counters,
                metadata, progress, trigger, share, weight, limits
            )
            SELECT r.id, i.key, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
                   r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
                   coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
                   coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.running_unique_key,
                   r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error, r.attempts, r.result,
                   r.counters, r.metadata, r.progress, mainspring.trigger_of(r.body), r.share, r.weight, r.limits
            FROM unnest(rows) r
            CROSS JOIN LATERAL (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = r.job_id LIMIT 1) i
            ON CONFLICT (id) DO NOTHING
            RETURNING id
        )
        SELECT added || array_agg(id) INTO added FROM inserted;
        EXIT WHEN cardinality(added) = cardinality(rows);
        PERFORM mainspring.ensure_incarnations(array_agg(x.job_id), array_agg(x.job)) FROM unnest(rows) x;
    END LOOP;
    ended := mainspring.remove_ended(added);
    IF ended IS NULL AND cardinality(added) = cardinality(rows) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT array_agg(r.id) FROM unnest(rows) r
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
    );
END
$$;
