SELECT max(seq) FROM mainspring_logs WHERE execution_id = ?1
