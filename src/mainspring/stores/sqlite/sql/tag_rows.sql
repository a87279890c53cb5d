UPDATE mainspring_live SET phase = 1, blocked = 0, tag = json_extract(given.value, '$[1]')
FROM json_each(?1) AS given WHERE seq = json_extract(given.value, '$[0]')
