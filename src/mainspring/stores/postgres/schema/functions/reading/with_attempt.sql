-- A JSON list of attempts with one more.
CREATE OR REPLACE FUNCTION mainspring.with_attempt(attempts text, attempt text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN attempt IS NULL THEN attempts
                  WHEN attempts IS NULL THEN '[' || attempt || ']'
                  ELSE left(attempts, -1) || ',' || attempt || ']' END $$;
