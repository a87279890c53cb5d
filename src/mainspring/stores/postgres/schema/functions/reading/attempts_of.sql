-- The attempts of a finished row: as stored, or the single one in its three columns.
CREATE OR REPLACE FUNCTION mainspring.attempts_of(r mainspring.history) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN r.tried IS NULL THEN r.attempts ELSE concat(
        '[{"number":1,"worker":', to_json(r.tried_by)::text, ',"started":', r.tried, ',"ended":', r.finished,
        ',"end":"completed"', ',"cpu_ms":' || r.tried_cpu, '}]'
    ) END
$$;
