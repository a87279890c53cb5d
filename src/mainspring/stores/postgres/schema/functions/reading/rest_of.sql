-- The fields of a live row that most rows do not have.
CREATE OR REPLACE FUNCTION mainspring.rest_of(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN r.failures = 0 AND r.crashes = 0 AND NOT r.alone AND NOT r.staged AND num_nonnulls(
            r.number, r.unique_key, r.overlap_key, r.running_unique_key, r.running_overlap_key, r.cancel_requested,
            r.cancel_reason, r.reason, r.error, r.attempts, r.result, r.counters, r.metadata, r.progress
        ) = 0 THEN '}' ELSE
            ',"failures":' || r.failures || ',"crashes":' || r.crashes
            || CASE WHEN r.alone THEN ',"alone":true' ELSE '' END
            || CASE WHEN r.staged THEN ',"staged":true' ELSE '' END
            || mainspring.field('number', r.number)
            || mainspring.field('unique_key', r.unique_key)
            || mainspring.field('overlap_key', r.overlap_key)
            || mainspring.field('running_unique_key', r.running_unique_key)
            || mainspring.field('running_overlap_key', r.running_overlap_key)
            || mainspring.field('cancel_requested', r.cancel_requested)
            || mainspring.field('cancel_reason', r.cancel_reason)
            || mainspring.field('reason', r.reason)
            || mainspring.field('error', r.error)
            || mainspring.field('attempts_json', r.attempts)
            || mainspring.field('result_json', r.result)
            || mainspring.field('counters_json', r.counters)
            || mainspring.field('metadata_json', r.metadata)
            || mainspring.field('progress_json', r.progress)
            || '}'
        END
$$;
