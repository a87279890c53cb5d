-- Waits only briefly: a key that an open transaction is about to take must not delay the ticks of other jobs.
SELECT mainspring.write_jobs(CASE WHEN s.brief IS NOT NULL THEN $1::text::json END)::text
FROM (SELECT set_config('lock_timeout', '50ms', true) AS brief) s
