UPDATE mainspring_live SET tail = ?2 WHERE id = ?1
