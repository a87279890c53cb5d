UPDATE mainspring_live SET phase = json_extract(given.value, '$[1]'), parked = json_extract(given.value, '$[2]')
FROM json_each(?1) AS given WHERE seq = json_extract(given.value, '$[0]')
