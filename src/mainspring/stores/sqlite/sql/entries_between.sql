-- Without an upper bound the key is compared with a blob, which is greater than any text.
SELECT $entry FROM mainspring_entries WHERE kind = ?1 AND scope = ?2 AND key > ?3 AND key < ifnull(?4, x'')
ORDER BY key LIMIT ?5
