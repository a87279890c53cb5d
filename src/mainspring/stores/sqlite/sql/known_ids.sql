SELECT json_group_array(id) FROM mainspring_executions WHERE id IN (SELECT value FROM json_each(?1))
