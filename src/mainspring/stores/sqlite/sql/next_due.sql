-- When the next row becomes ready, or the next look at what is parked is due: at once, if it lies so far ahead (?1) that
-- the clock must have been set back.
SELECT min(due) FROM (
    SELECT (SELECT due FROM mainspring_live WHERE phase = 0 ORDER BY due LIMIT 1) AS due
    UNION ALL
    SELECT (SELECT iif(look > ?1, 0, look) FROM mainspring_waits ORDER BY look LIMIT 1)
)
