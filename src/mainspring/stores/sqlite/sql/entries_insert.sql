INSERT INTO mainspring_entries (kind, scope, key, version, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING
