-- Without an upper end the key is compared with a blob: every text is less than that.
SELECT $entry FROM mainspring_entries WHERE kind = ?1 AND scope = ?2 AND key > ?3 AND key < ifnull(?4, x'')
ORDER BY key LIMIT ?5
