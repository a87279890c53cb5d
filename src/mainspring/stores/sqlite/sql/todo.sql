SELECT group_concat($history)
FROM (SELECT * FROM mainspring_history WHERE todo = 1 ORDER BY id LIMIT ?1)
