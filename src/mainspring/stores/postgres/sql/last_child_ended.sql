SELECT max(h.finished) FROM mainspring.history h WHERE h.parent_id = $1::text
