-- When the next row becomes ready, or the next look at what is parked is due.
SELECT min(due) FROM (
    SELECT (SELECT due FROM mainspring_live WHERE phase = 0 ORDER BY due LIMIT 1) AS due
    UNION ALL
    SELECT (SELECT look FROM mainspring_waits ORDER BY look LIMIT 1)
)
