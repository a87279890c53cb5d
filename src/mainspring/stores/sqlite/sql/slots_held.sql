SELECT count(*) FROM mainspring_slots WHERE key = ?1
