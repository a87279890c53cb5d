SELECT json_group_array(unique_key) FROM mainspring_live WHERE unique_key IN (SELECT value FROM json_each(?1))
