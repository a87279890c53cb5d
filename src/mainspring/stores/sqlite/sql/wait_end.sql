DELETE FROM mainspring_waits
WHERE parked = ?1 AND NOT EXISTS (SELECT 1 FROM mainspring_live WHERE phase = 4 AND parked = ?1)
