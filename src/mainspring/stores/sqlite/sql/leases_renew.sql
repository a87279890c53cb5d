UPDATE mainspring_live SET lease = ?1 WHERE seq IN (SELECT value FROM json_each(?2))
