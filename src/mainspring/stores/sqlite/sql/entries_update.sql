UPDATE mainspring_entries SET version = version + 1, body = ?4
WHERE kind = ?1 AND scope = ?2 AND key = ?3 AND version = ?5
