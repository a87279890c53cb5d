UPDATE mainspring_live SET phase = 1, due = ?1, blocked = 0, tag = iif(share IS NULL, 0, NULL)
WHERE blocked = 1 AND due > ?1 AND running_unique_key IN (SELECT value FROM json_each(?2))
