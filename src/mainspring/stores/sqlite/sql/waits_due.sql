SELECT parked FROM mainspring_waits WHERE look <= ?1 ORDER BY look LIMIT ?2
