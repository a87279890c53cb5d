UPDATE mainspring_live SET
    phase = ?2, lane = ?3, due = ?4, owner = ?5, lease = ?6, claimed = ?7, started = ?8, blocked = 0, tail = ?9,
    parked = NULL
WHERE seq = ?1
