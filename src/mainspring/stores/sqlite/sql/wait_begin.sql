INSERT INTO mainspring_waits (parked, look) VALUES (?1, ?2)
ON CONFLICT (parked) DO UPDATE SET look = min(look, excluded.look)
