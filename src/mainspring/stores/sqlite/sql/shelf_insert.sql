INSERT INTO mainspring_shelf (kind, scope, key, version, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING
