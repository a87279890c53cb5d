-- Tables with their indexes; partitions count for the table they belong to. Rows are the planner's estimates.
SELECT COALESCE(p.relname, c.relname)::text, SUM(pg_total_relation_size(c.oid))::bigint,
    SUM(GREATEST(c.reltuples, 0))::bigint
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class p ON p.oid = i.inhparent
WHERE c.relkind = 'r'
    AND c.relnamespace = (SELECT k.relnamespace FROM pg_class k WHERE k.oid = 'mainspring.job'::regclass)
GROUP BY 1
ORDER BY 2 DESC
