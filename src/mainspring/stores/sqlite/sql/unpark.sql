-- The first ones of those that wait for the same, under the tags they have.
UPDATE mainspring_live SET phase = 1, parked = NULL
WHERE seq IN (SELECT seq FROM mainspring_live WHERE parked = ?1 ORDER BY priority DESC, tag, id LIMIT ?2)
