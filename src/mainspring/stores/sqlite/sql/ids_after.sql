SELECT json_group_array(id) FROM (SELECT id FROM mainspring_executions WHERE id > ?1 ORDER BY id LIMIT ?2)
