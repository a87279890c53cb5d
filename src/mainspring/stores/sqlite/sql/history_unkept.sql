SELECT json_group_array(id) FROM mainspring_history
WHERE seq IN (SELECT seq FROM mainspring_executions WHERE id IN (SELECT value FROM json_each(?1)))
AND todo = 0 AND keep = 0
