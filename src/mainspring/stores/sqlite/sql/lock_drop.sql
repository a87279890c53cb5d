DELETE FROM mainspring_locks WHERE name = ?1 AND (?2 IS NULL OR token = ?2) AND expires > ?3
