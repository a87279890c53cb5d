INSERT INTO mainspring_waits (key, phase, look) VALUES (?1, ?2, ?3)
ON CONFLICT (key, phase) DO UPDATE SET look = min(look, excluded.look)
