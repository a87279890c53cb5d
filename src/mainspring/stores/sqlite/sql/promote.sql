-- The next rows without a share; rows with a share become ready when they get their tags.
UPDATE mainspring_live SET phase = 1, blocked = 0
WHERE seq IN (
    SELECT seq FROM (SELECT seq, share FROM mainspring_live WHERE phase = 0 AND due <= ?1 ORDER BY due LIMIT ?2)
    WHERE share IS NULL
)
