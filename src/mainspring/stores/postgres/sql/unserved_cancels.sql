SELECT string_agg(mainspring.as_json(y.row), ',')
FROM (
    SELECT l AS row FROM mainspring.live l
    WHERE l.cancel_requested IS NOT NULL AND l.owner IS NULL AND l.phase <> 2 ORDER BY l.id LIMIT $1::bigint
) y
