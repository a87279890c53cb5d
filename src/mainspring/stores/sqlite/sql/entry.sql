SELECT $entry FROM mainspring_entries WHERE kind = ?1 AND scope = ?2 AND key = ?3
