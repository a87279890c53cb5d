-- The smallest id of the millisecond of that instant: ids are ordered by time.
CREATE OR REPLACE FUNCTION mainspring.id_at(micros bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(micros, 0) / 1000), 12, '0') || repeat('0', 20))::uuid $$;
