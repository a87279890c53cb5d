-- The four minutes in which an id was made: see the table `numbers`.
CREATE OR REPLACE FUNCTION mainspring.span_of(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint >> 18 $$;
