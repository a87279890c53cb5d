SELECT tag FROM mainspring_live WHERE phase = 1 AND lane = ?1 AND priority = ?2 AND share = ?3
ORDER BY tag DESC LIMIT 1
