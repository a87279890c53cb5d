DELETE FROM mainspring_slots WHERE (key, seq) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)
)
