DELETE FROM mainspring_executions WHERE seq IN (SELECT value FROM json_each(?1))
