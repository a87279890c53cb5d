-- A hint need not wait for the disk.
SELECT pg_notify($1::text, CASE WHEN s.brief IS NOT NULL THEN $2::text END)
FROM (SELECT set_config('synchronous_commit', 'off', true) AS brief) s
