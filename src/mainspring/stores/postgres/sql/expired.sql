SELECT string_agg(mainspring.as_json(y.row), ',')
FROM (
    SELECT l AS row FROM mainspring.live l
    WHERE l.phase >= 2 AND l.phase = 2 AND l.lease <= (SELECT mainspring.now_micros())
    ORDER BY l.lease, l.id LIMIT $1::bigint
) y
