DELETE FROM mainspring_slots WHERE key = ?1 AND seq IN (SELECT value FROM json_each(?2))
