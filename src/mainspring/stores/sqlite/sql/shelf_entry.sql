SELECT $entry FROM mainspring_shelf WHERE kind = ?1 AND scope = ?2 AND key = ?3
