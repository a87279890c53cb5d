UPDATE mainspring_live SET phase = share IS NULL, due = ?1, blocked = 0
WHERE blocked = 1 AND due > ?1 AND running_overlap_key IN (SELECT value FROM json_each(?2))
