-- The first rows that wait for this key.
SELECT seq, lane FROM mainspring_live
WHERE blocked = 1 AND running_overlap_key = ?2 AND due > ?1 ORDER BY priority DESC, id LIMIT ?3
