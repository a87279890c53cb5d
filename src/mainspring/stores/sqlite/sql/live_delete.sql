DELETE FROM mainspring_live WHERE id IN (SELECT value FROM json_each(?1))
