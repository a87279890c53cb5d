-- `rest_of`, but not inlined into the query that calls it: planning so long an expression costs more than reading a
-- row.
CREATE OR REPLACE FUNCTION mainspring.rare_fields(r mainspring.live) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN mainspring.rest_of(r);
END
$$;
