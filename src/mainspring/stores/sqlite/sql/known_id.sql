SELECT id FROM mainspring_executions WHERE id = ?1
