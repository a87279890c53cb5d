SELECT mainspring.labelled(mainspring.as_json(l), l.id) FROM mainspring.live l WHERE l.id = $1::uuid
UNION ALL
SELECT mainspring.labelled(mainspring.as_json(h), h.id) FROM mainspring.history h WHERE h.id = $1::uuid
LIMIT 1
