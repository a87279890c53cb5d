-- Microseconds since the epoch as a timestamp, exact until the year 2242. The server puts the expression in place of
-- the call, so that the index history_started serves conditions on it.
CREATE OR REPLACE FUNCTION mainspring.as_time(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT to_timestamp(micros::double precision / 1000000) $$;
