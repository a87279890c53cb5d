WITH page AS MATERIALIZED (
    SELECT id FROM (
        (SELECT l.id FROM mainspring.live l WHERE l.id > $1::uuid ORDER BY l.id LIMIT $2::bigint)
        UNION ALL
        (SELECT h.id FROM mainspring.history h WHERE h.id > $1::uuid ORDER BY h.id LIMIT $2::bigint)
    ) x ORDER BY id LIMIT $2::bigint
), found AS (
    SELECT p.id, l.text FROM page p
    CROSS JOIN LATERAL (SELECT mainspring.as_json(l) AS text FROM mainspring.live l WHERE l.id = p.id) l
    UNION ALL
    SELECT p.id, h.text FROM page p
    CROSS JOIN LATERAL (SELECT mainspring.as_json(h) AS text FROM mainspring.history h WHERE h.id = p.id) h
)
SELECT string_agg(text, ',' ORDER BY id) FROM found
