SELECT execution_id, seq, at, level, message, logger FROM mainspring_logs
WHERE execution_id IN (SELECT value FROM json_each(?1)) ORDER BY execution_id, seq
