SELECT CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END, count(*)
FROM mainspring.live l WHERE l.parent_id = $1::text GROUP BY 1
UNION ALL
SELECT h.state, count(*) FROM mainspring.history h WHERE h.parent_id = $1::text GROUP BY 1
