DELETE FROM mainspring_entries WHERE kind = ?1 AND scope = ?2 AND key = ?3 AND (?4 IS NULL OR version = ?4)
