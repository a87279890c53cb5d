SELECT CASE phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END, count(*)
FROM mainspring_live WHERE parent_id = ?1 GROUP BY 1
UNION ALL
SELECT state, count(*) FROM mainspring_history WHERE parent_id = ?1 GROUP BY 1
