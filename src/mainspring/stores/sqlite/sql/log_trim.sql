DELETE FROM mainspring_logs WHERE execution_id = ?1 AND seq <= ?2
