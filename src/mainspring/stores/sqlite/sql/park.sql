UPDATE mainspring_live SET phase = 4, parked = json_extract(given.value, '$[1]')
FROM json_each(?1) AS given WHERE seq = json_extract(given.value, '$[0]')
