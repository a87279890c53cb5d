-- An execution as JSON, with its labels if it has any.
CREATE OR REPLACE FUNCTION mainspring.labelled(execution text, wanted uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce((
        SELECT left(execution, -1) || ',"labels":' || json_agg(g.label ORDER BY g.label)::text || '}'
        FROM mainspring.label g WHERE g.id = wanted HAVING count(*) > 0
    ), execution)
$$;
