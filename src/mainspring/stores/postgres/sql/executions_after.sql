SELECT string_agg(mainspring.labelled(text, id), ',' ORDER BY id) FROM (
    SELECT id, text FROM (
        (SELECT l.id, mainspring.as_json(l) AS text FROM mainspring.live l
         WHERE l.id > $1::uuid ORDER BY l.id LIMIT $2::bigint)
        UNION ALL
        (SELECT h.id, mainspring.as_json(h) AS text FROM mainspring.history h
         WHERE h.id > $1::uuid ORDER BY h.id LIMIT $2::bigint)
    ) x ORDER BY id LIMIT $2::bigint
) page
