-- Whole tokens; a level that is less than a millionth short of a whole number counts as that number.
CREATE OR REPLACE FUNCTION mainspring.tokens_in(level double precision) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT greatest(0, floor(level + 1e-6))::integer $$;
