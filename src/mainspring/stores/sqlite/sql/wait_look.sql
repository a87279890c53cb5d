UPDATE mainspring_waits SET look = ?3 WHERE key = ?1 AND phase = ?2
