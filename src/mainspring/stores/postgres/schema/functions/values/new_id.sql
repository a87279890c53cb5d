-- An id (UUID version 7) of that instant.
CREATE OR REPLACE FUNCTION mainspring.new_id(now bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex(now / 1000), 12, '0') || '7' || substr(r, 1, 3) || substr(r, 17, 16))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS r) x
$$;
