-- The labels of a job, as model.labels.job_labels makes them.
CREATE OR REPLACE FUNCTION mainspring.job_labels(declared text, overrides text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(
        SELECT 'owner=' || s.owner WHERE s.owner IS NOT NULL
        UNION ALL
        SELECT 'tag=' || t.tag
        FROM json_array_elements_text(CASE json_typeof(s.tags) WHEN 'array' THEN s.tags END) t (tag)
        UNION ALL
        (SELECT 'meta.' || m.key || '=' || (m.value #>> '{}')
         FROM json_each(CASE json_typeof(s.metadata) WHEN 'object' THEN s.metadata END) m
         WHERE json_typeof(m.value) IN ('string', 'number', 'boolean') AND length(m.key) + length(m.value #>> '{}') <= 200
         ORDER BY m.key COLLATE "C" LIMIT 50)
    )
    FROM (
        SELECT replace(declared, '\u0000', '\ufffd')::json AS declared, replace(overrides, '\u0000', '\ufffd')::json AS edited
    ) j
    CROSS JOIN LATERAL (
        SELECT coalesce(j.edited->>'owner', j.declared->>'owner') AS owner,
            coalesce(j.edited->'tags', j.declared->'tags') AS tags,
            coalesce(j.edited->'metadata', j.declared->'metadata') AS metadata
    ) s
$$;

-- For jobs that the release before has listed: called once, after the migration to step 3 and outside of it, because it
-- takes a second for 10,000 jobs.
CREATE OR REPLACE FUNCTION mainspring.label_jobs() RETURNS void LANGUAGE sql AS $$
    UPDATE mainspring.job_list l SET labels = mainspring.job_labels(j.declared, j.overrides)
    FROM mainspring.job j WHERE j.name = l.name AND l.labels IS NULL;
    DELETE FROM mainspring.meta WHERE key = 'unlabelled';
$$;
