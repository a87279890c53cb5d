-- Whole tokens; one that is short of a millionth by the rounding of sums is one.
CREATE OR REPLACE FUNCTION mainspring.tokens_in(level double precision) RETURNS integer LANGUAGE sql IMMUTABLE
AS $$ SELECT greatest(0, floor(level + 1e-6))::integer $$;
