UPDATE mainspring_live SET phase = 1, blocked = 0, tag = iif(share IS NULL, 0, NULL)
WHERE seq IN (SELECT seq FROM mainspring_live WHERE phase = 0 AND due <= ?1 ORDER BY due LIMIT ?2)
