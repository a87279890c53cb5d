-- The store's clock: every due time and lease is judged by it. Tests replace this function in a schema of their own.
CREATE OR REPLACE FUNCTION mainspring.now_micros() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
