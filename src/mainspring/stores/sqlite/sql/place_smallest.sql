SELECT place FROM mainspring_live WHERE phase = 4 AND parked = ?1 AND line = ?2 AND priority = ?3 ORDER BY place LIMIT 1
