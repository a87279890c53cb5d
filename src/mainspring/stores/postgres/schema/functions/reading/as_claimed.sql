-- A row just claimed as JSON; `same` is what all rows of the claim have in common.
CREATE OR REPLACE FUNCTION mainspring.as_claimed(r mainspring.live, same text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        ',"started":', r.started, same,
        CASE WHEN r.failures = 0 AND r.crashes = 0 AND NOT r.alone AND NOT r.staged AND num_nonnulls(
            r.number, r.unique_key, r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_requested,
            r.cancel_reason, r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress
        ) = 0 THEN '}' ELSE mainspring.rare_fields(r) END
    )
$$;
