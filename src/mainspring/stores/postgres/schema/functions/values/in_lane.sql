-- The lane of the same kind for exclusive rows, or for others.
CREATE OR REPLACE FUNCTION mainspring.in_lane(lane text, alone boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(lane, '/', 1) || '/' || split_part(lane, '/', 2) || CASE
        WHEN split_part(lane, '/', 4) <> '' THEN
            CASE WHEN alone THEN '/alone/' ELSE '//' END || split_part(lane, '/', 4)
        WHEN alone THEN '/alone' ELSE '' END
$$;
