UPDATE mainspring_live SET phase = 0, due = ?2, blocked = 1 WHERE seq = ?1
