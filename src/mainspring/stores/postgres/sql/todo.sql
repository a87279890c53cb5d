SELECT string_agg(mainspring.as_json(y.row), ',' ORDER BY (y.row).id)
FROM (SELECT h AS row FROM mainspring.history h WHERE h.todo AND h.id > $2::uuid ORDER BY h.id LIMIT $1::bigint) y
