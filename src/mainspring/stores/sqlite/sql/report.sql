UPDATE mainspring_live SET tail = ?2 WHERE seq = (SELECT seq FROM mainspring_executions WHERE id = ?1)
