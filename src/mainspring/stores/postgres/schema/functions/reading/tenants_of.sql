-- How many tenants of a parent there are ('total'), completed ('success'), or ended otherwise and were not skipped
-- ('failed'); NULL for an execution that is no parent. An ended parent has the numbers in its result.
CREATE OR REPLACE FUNCTION mainspring.tenants_of(parent uuid, body json, result text, wanted text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN (body->>'policy')::json->'fan_out' IS NULL THEN NULL ELSE coalesce(
        (result::json->>wanted)::bigint,
        (SELECT count(*) FROM mainspring.history h
         WHERE h.parent_id = parent::text AND CASE wanted WHEN 'total' THEN true
            WHEN 'success' THEN h.state = 'completed' ELSE h.state NOT IN ('completed', 'skipped') END)
        + (SELECT count(*) FROM mainspring.live l WHERE l.parent_id = parent::text AND wanted = 'total')
    ) END
$$;
