SELECT seq, at, level, message FROM mainspring.log WHERE execution_id = $1::uuid AND seq > $2::integer ORDER BY seq
