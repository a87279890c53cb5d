-- The trigger named in a body; NULL for an enqueue. Inside texts quotes are escaped, so only the field itself matches.
CREATE OR REPLACE FUNCTION mainspring.trigger_of(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN strpos(body, '"trigger":"') > 0 THEN nullif(substring(body
    FROM '"trigger":"([^"]*)"'), 'enqueue') END $$;
