SELECT id, token FROM mainspring_live
WHERE id IN (SELECT value FROM json_each(?1)) AND phase = 2 AND owner = ?2
