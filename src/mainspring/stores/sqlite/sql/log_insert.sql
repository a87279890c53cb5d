INSERT INTO mainspring_logs (execution_id, seq, at, level, message)
VALUES /*rows*/(?, ?, ?, ?, ?)/*end*/
