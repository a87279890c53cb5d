SELECT json_group_array(overlap_key) FROM mainspring_live WHERE overlap_key IN (SELECT value FROM json_each(?1))
