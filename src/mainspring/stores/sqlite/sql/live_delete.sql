DELETE FROM mainspring_live WHERE seq IN (SELECT value FROM json_each(?1))
