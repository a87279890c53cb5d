SELECT mainspring.as_json(l) FROM mainspring.live l WHERE l.id = $1::uuid
UNION ALL
SELECT mainspring.as_json(h) FROM mainspring.history h WHERE h.id = $1::uuid
LIMIT 1
