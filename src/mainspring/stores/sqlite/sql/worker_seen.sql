INSERT INTO mainspring_workers (id, seen, info) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, info = excluded.info
