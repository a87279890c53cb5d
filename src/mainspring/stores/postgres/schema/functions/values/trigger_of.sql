-- A body is JSON as the client writes it: what is quoted within a text looks different.
CREATE OR REPLACE FUNCTION mainspring.trigger_of(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN strpos(body, '"trigger":"') > 0 THEN nullif(substring(body FROM '"trigger":"([^"]*)"'), 'enqueue') END $$;
