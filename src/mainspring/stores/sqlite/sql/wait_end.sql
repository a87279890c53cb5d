DELETE FROM mainspring_waits WHERE key = ?1 AND phase = ?2
AND NOT EXISTS (SELECT 1 FROM mainspring_live WHERE parked = ?1 AND mainspring_live.phase = ?2)
