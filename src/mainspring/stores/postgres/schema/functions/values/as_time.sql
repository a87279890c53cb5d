-- Microseconds since the epoch as a timestamp.
CREATE OR REPLACE FUNCTION mainspring.as_time(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond' $$;
