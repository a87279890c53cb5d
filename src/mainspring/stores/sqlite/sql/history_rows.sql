SELECT group_concat($history)
FROM (SELECT * FROM mainspring_history WHERE id IN (SELECT value FROM json_each(?1)))
