UPDATE mainspring_live SET
    phase = 4, parked = json_extract(given.value, '$[1]'), line = json_extract(given.value, '$[2]'),
    place = json_extract(given.value, '$[3]')
FROM json_each(?1) AS given WHERE seq = json_extract(given.value, '$[0]')
