SELECT seq, at, level, message, logger FROM mainspring_logs
WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq
