SELECT seq, at, level, message, logger FROM mainspring.log
WHERE execution_id = $1::uuid AND seq > $2::integer ORDER BY seq
