SELECT id FROM mainspring_live WHERE unique_key = ?1 AND id <> ?3
UNION ALL
SELECT id FROM mainspring_live WHERE overlap_key = ?2 AND id <> ?3
LIMIT 1
