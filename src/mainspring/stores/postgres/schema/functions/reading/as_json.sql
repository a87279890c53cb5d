-- An execution as one JSON object with the field names of the model, which decodes in one go. These are plain
-- expressions, so that the planner puts them into the query that calls them.

CREATE OR REPLACE FUNCTION mainspring.as_json(r mainspring.live) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT concat(
        r.body, ',"id":"', r.id, '","created":', r.created, ',"due":', r.due, ',"token":', r.token,
        CASE r.phase WHEN 2 THEN ',"state":"running"' WHEN 3 THEN ',"state":"waiting"' END,
        mainspring.field('owner', r.owner), mainspring.field('lease', r.lease),
        mainspring.field('claimed', r.claimed), mainspring.field('started', r.started),
        mainspring.field('parked', CASE r.phase WHEN -1 THEN r.parked END), mainspring.rest_of(r)
    )
$$;

CREATE OR REPLACE FUNCTION mainspring.as_json(r mainspring.history) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
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
