INSERT INTO mainspring_logs (execution_id, seq, at, level, message, logger)
VALUES /*rows*/(?, ?, ?, ?, ?, ?)/*end*/
