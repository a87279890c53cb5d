-- A loose index scan: one seek per lane that has ready rows, however many rows it has.
WITH RECURSIVE found (lane) AS (
    SELECT (SELECT lane FROM mainspring_live WHERE phase = 1 ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT lane FROM mainspring_live WHERE phase = 1 AND lane > found.lane ORDER BY lane LIMIT 1)
    FROM found WHERE found.lane IS NOT NULL
)
SELECT json_group_array(lane) FROM found WHERE lane IS NOT NULL
