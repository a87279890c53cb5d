-- An execution as one JSON object with the field names of the model: read back, it decodes in one go. Both functions
-- are plain expressions, so that the planner puts them into the query that calls them.

CREATE FUNCTION mainspring.field(name text, value text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || to_json(value)::text END $$;

CREATE FUNCTION mainspring.field(name text, value bigint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || value END $$;

-- What a live row has to say beyond what every one has; the usual one nothing.
CREATE FUNCTION mainspring.rest_of(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
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

CREATE FUNCTION mainspring.as_json(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        CASE r.phase WHEN 2 THEN ',"state":"running"' WHEN 3 THEN ',"state":"waiting"' END,
        mainspring.field('owner', r.owner), mainspring.field('lease', r.lease),
        mainspring.field('claimed', r.claimed), mainspring.field('started', r.started), mainspring.rest_of(r)
    )
$$;

-- A row just claimed; `same` is what all rows of the claim have in common.
CREATE FUNCTION mainspring.as_claimed(r mainspring.live, same text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        ',"started":', r.started, same, mainspring.rest_of(r)
    )
$$;

-- The number an execution was given by `fold`; NULL when that has not happened yet.
CREATE FUNCTION mainspring.span_of(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint >> 18 $$;

CREATE FUNCTION mainspring.number_of(wanted_job integer, wanted uuid) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT n.first + array_position(n.ids, wanted) - 1
    FROM mainspring.numbers n
    WHERE n.job_key = wanted_job AND n.span = mainspring.span_of(wanted)
        AND n.low <= wanted AND n.high >= wanted AND wanted = ANY (n.ids)
    LIMIT 1
$$;

CREATE FUNCTION mainspring.attempts_of(r mainspring.history) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN r.tried IS NULL THEN r.attempts ELSE concat(
        '[{"number":1,"worker":', to_json(r.tried_by)::text, ',"started":', r.tried, ',"ended":', r.finished,
        ',"end":"completed"', ',"cpu_ms":' || r.tried_cpu, '}]'
    ) END
$$;

CREATE FUNCTION mainspring.as_json(r mainspring.history) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT r.body
        || ',"id":"' || r.id || '","created":' || r.created || ',"due":' || r.due || ',"token":' || r.token
        || ',"state":"' || r.state || '"'
        || mainspring.field('claimed', r.claimed)
        || mainspring.field('started', r.started)
        || mainspring.field('finished', r.finished)
        || mainspring.field('number', coalesce(r.number, mainspring.number_of(r.job_key, r.id)))
        || CASE WHEN r.failures = 0 THEN '' ELSE ',"failures":' || r.failures END
        || CASE WHEN r.crashes = 0 THEN '' ELSE ',"crashes":' || r.crashes END
        || CASE WHEN r.alone THEN ',"alone":true' ELSE '' END
        || CASE WHEN r.staged THEN ',"staged":true' ELSE '' END
        || CASE WHEN r.todo THEN ',"todo":true' ELSE ',"todo":false' END
        || mainspring.field('unique_key', r.unique_key)
        || mainspring.field('overlap_key', r.overlap_key)
        || mainspring.field('running_unique_key', r.running_unique_key)
        || mainspring.field('running_overlap_key', r.running_overlap_key)
        || mainspring.field('cancel_requested', r.cancel_requested)
        || mainspring.field('cancel_reason', r.cancel_reason)
        || mainspring.field('reason', r.reason)
        || mainspring.field('error', r.error)
        || mainspring.field('attempts_json', mainspring.attempts_of(r))
        || mainspring.field('result_json', r.result)
        || mainspring.field('counters_json', r.counters)
        || mainspring.field('metadata_json', r.metadata)
        || mainspring.field('progress_json', r.progress)
        || '}'
$$;
