-- The job's own parameters with the given ones on top; left as they came where there is nothing to merge.
CREATE OR REPLACE FUNCTION mainspring.merged(own json, given json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN given IS NULL THEN own::text
                WHEN own::text = '{}' THEN given::text
                ELSE (own::jsonb || given::jsonb)::text END
$$;
