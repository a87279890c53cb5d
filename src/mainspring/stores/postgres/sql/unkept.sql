SELECT h.id::text FROM mainspring.history h WHERE h.id = ANY ($1::text::uuid[]) AND NOT h.keep
