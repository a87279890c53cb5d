-- Wake the first rows of a wait line. Rows with a share are due now and become ready when they get their tags.
UPDATE mainspring_live SET phase = share IS NULL, due = iif(share IS NULL, due, min(due, ?4))
WHERE seq IN (
    SELECT seq FROM mainspring_live WHERE phase = 4 AND parked = ?1 AND line = ?2 ORDER BY priority DESC, place, id LIMIT ?3
)
