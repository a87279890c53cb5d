DELETE FROM mainspring_logs WHERE execution_id IN (SELECT value FROM json_each(?1))
