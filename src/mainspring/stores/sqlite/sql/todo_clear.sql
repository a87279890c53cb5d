UPDATE mainspring_history SET todo = 0
WHERE seq IN (SELECT seq FROM mainspring_executions WHERE id IN (SELECT value FROM json_each(?1))) AND todo = 1
