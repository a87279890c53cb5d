-- Who wants fewer rows claims in order.
CREATE OR REPLACE FUNCTION mainspring.backlog() RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT 50 $$;
