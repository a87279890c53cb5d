SELECT tag FROM mainspring_live WHERE phase = 1 AND lane = ?1 AND priority = ?2 ORDER BY tag LIMIT 1
