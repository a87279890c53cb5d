UPDATE mainspring_live SET
    phase = 2, token = token + 1, owner = ?1, lease = ?2, claimed = ?3, started = coalesce(started, ?3)
WHERE seq IN (SELECT value FROM json_each(?4))
