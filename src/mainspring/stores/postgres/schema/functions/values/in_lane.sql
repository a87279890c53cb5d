-- The lane of the same kind for exclusive rows, or for others.
CREATE OR REPLACE FUNCTION mainspring.in_lane(lane text, alone boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(lane, '/', 1) || '/' || split_part(lane, '/', 2) || CASE
        WHEN split_part(lane, '/', 4) <> '' THEN
            CASE WHEN alone THEN '/alone/' ELSE '//' END || split_part(lane, '/', 4)
        WHEN alone THEN '/alone' ELSE '' END
$$;

-- The same lane for rows of another kind: 'limited', 'fair' or '' for neither.
CREATE OR REPLACE FUNCTION mainspring.lane_of_kind(lane text, kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(lane, '/', 1) || '/' || split_part(lane, '/', 2) || CASE
        WHEN kind <> '' THEN '/' || split_part(lane, '/', 3) || '/' || kind
        WHEN split_part(lane, '/', 3) <> '' THEN '/' || split_part(lane, '/', 3) ELSE '' END
$$;
