INSERT INTO mainspring_entries (kind, scope, key, version, body) VALUES /*rows*/('failure', '', ?, 1, ?)/*end*/
ON CONFLICT DO NOTHING
