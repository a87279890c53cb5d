SELECT lane, count(*) FROM mainspring_live INDEXED BY mainspring_live_lease WHERE phase = 2 GROUP BY lane
