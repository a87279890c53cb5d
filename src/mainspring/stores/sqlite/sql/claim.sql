UPDATE mainspring_live SET
    phase = 2, token = ((token >> 32) + 1) << 32 | ?2, owner = ?1, lease = ?3, claimed = ?4, started = coalesce(started, ?4)
WHERE seq IN (SELECT value FROM json_each(?5))
