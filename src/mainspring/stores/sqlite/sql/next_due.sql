-- When the next row becomes ready or the next check of a wait line is due. A check planned later than ?1 is due at
-- once: the clock was set back.
SELECT min(due) FROM (
    SELECT (SELECT due FROM mainspring_live WHERE phase = 0 ORDER BY due LIMIT 1) AS due
    UNION ALL
    SELECT (SELECT iif(look > ?1, 0, look) FROM mainspring_waits ORDER BY look LIMIT 1)
)
