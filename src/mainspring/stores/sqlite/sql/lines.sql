-- The wait lines of a key and kind, with one index seek each.
WITH RECURSIVE found (line) AS (
    SELECT (SELECT line FROM mainspring_live WHERE phase = 4 AND parked = ?1 ORDER BY line LIMIT 1)
    UNION ALL
    SELECT (SELECT line FROM mainspring_live WHERE phase = 4 AND parked = ?1 AND line > found.line ORDER BY line LIMIT 1)
    FROM found WHERE found.line IS NOT NULL
)
SELECT line FROM found WHERE line IS NOT NULL
