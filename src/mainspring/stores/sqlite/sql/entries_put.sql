INSERT INTO mainspring_entries (kind, scope, key, version, body) VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT DO UPDATE SET version = version + 1, body = excluded.body
