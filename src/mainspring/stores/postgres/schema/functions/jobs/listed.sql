-- The row of a job in `job_list`. The client renders the text to search in, because not every database knows the lower
-- case of every letter. The release before renders no labels.
CREATE OR REPLACE FUNCTION mainspring.listed(j mainspring.job, job_key integer) RETURNS mainspring.job_list
LANGUAGE sql STABLE AS $$
    SELECT (
        j.name, job_key, t.row->>'handler', t.row->>'queue', j.origin, j.paused IS NOT NULL, j.cancelled IS NOT NULL,
        j.due IS NOT NULL, j.created, j.updated, t.search,
        coalesce(t.labels, mainspring.job_labels(j.declared, j.overrides))
    )::mainspring.job_list
    FROM json_to_record(j.template::json) AS t (row json, search text, labels text[])
$$;
