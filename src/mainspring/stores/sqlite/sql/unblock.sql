UPDATE mainspring_live SET phase = share IS NULL, due = ?1, blocked = 0
WHERE seq IN (SELECT value FROM json_each(?2))
