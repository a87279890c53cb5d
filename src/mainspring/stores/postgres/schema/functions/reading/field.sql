-- One JSON field with a comma before it; nothing for NULL.
CREATE OR REPLACE FUNCTION mainspring.field(name text, value text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || to_json(value)::text END $$;

CREATE OR REPLACE FUNCTION mainspring.field(name text, value bigint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN value IS NULL THEN '' ELSE ',"' || name || '":' || value END $$;
