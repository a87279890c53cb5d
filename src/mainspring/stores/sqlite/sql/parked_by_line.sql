SELECT line, count(*) FROM mainspring_live INDEXED BY mainspring_live_parked WHERE phase = 4 GROUP BY parked, line
