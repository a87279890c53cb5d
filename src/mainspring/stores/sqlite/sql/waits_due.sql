-- Including checks planned further ahead than any check is: they are from before the clock was set back.
SELECT parked FROM (SELECT parked FROM mainspring_waits WHERE look <= ?1 ORDER BY look LIMIT ?2)
UNION ALL
SELECT parked FROM (SELECT parked FROM mainspring_waits WHERE look > ?3 LIMIT ?2)
