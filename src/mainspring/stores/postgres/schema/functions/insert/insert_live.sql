-- One live row. False when its id or one of its keys is taken.
CREATE OR REPLACE FUNCTION mainspring.insert_live(r mainspring.incoming, job integer, now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.live (
        id, job_key, phase, lane, priority, created, due, foreign_trace, body, tenant, parent_id, number, stray,
        token, owner, lease, claimed, started, failures, crashes, alone, staged, unique_key, overlap_key,
        running_unique_key, running_overlap_key, cancel_requested, cancel_reason, reason, error, attempts, result,
        counters, metadata, progress, trigger, share, weight, limits
    ) VALUES (
        r.id, job, mainspring.phase_of(r.state, r.due, now), r.lane, r.priority, r.created, r.due,
        r.foreign_trace, r.body, r.tenant, r.parent_id, r.number, coalesce(r.stray, false),
        coalesce(r.token, 0), r.owner, r.lease, r.claimed, r.started, coalesce(r.failures, 0),
        coalesce(r.crashes, 0), coalesce(r.alone, false), coalesce(r.staged, false), r.unique_key, r.overlap_key,
        r.running_unique_key, r.running_overlap_key, r.cancel_requested, r.cancel_reason, r.reason, r.error,
        r.attempts, r.result, r.counters, r.metadata, r.progress, mainspring.trigger_of(r.body), r.share, r.weight,
        r.limits
    ) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
