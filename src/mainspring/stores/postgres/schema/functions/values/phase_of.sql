-- The phase of a live row: see the table `live`.
CREATE OR REPLACE FUNCTION mainspring.phase_of(state text, due bigint, now bigint) RETURNS smallint
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE state WHEN 'running' THEN 2 WHEN 'waiting' THEN 3
                        ELSE CASE WHEN due <= now THEN 1 ELSE 0 END END::smallint $$;
