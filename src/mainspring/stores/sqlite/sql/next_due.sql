SELECT due FROM mainspring_live WHERE phase = 0 ORDER BY due LIMIT 1
