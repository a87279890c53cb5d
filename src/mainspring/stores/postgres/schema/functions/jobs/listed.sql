-- A job as the list has it. Who wrote it says in `defaults` what to search in; releases before this one do not, and not
-- every database knows the small form of every letter.
CREATE OR REPLACE FUNCTION mainspring.listed(j mainspring.job, job_key integer) RETURNS mainspring.job_list LANGUAGE sql STABLE
AS $$
    SELECT (
        j.name, job_key, d.handler, d.queue, j.origin, j.paused IS NOT NULL, j.cancelled IS NOT NULL, j.due IS NOT NULL,
        j.created, j.updated, coalesce(d.search, lower(concat_ws(
            chr(31), j.name, d.handler,
            coalesce(j.overrides::json->>'description', j.declared::json->>'description', '')
        )))
    )::mainspring.job_list
    FROM json_to_record(j.defaults::json) AS d (handler text, queue text, search text)
$$;
