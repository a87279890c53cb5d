SELECT place FROM mainspring_live WHERE phase = 4 AND parked = ?1 AND line = ?2 AND priority = ?3 AND share = ?4
ORDER BY place DESC LIMIT 1
