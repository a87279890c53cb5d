UPDATE mainspring_locks SET expires = ?3 WHERE name = ?1 AND token = ?2 AND expires > ?4
