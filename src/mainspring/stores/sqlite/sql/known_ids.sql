SELECT json_group_array(id) FROM (
    SELECT id FROM mainspring_live WHERE id IN (SELECT value FROM json_each(?1))
    UNION ALL
    SELECT id FROM mainspring_history WHERE id IN (SELECT value FROM json_each(?1))
)
