-- Waits only briefly: see write_jobs.
SELECT to_json(a.won)::text, a.others::text
FROM (SELECT set_config('lock_timeout', '50ms', true) AS brief) s
CROSS JOIN LATERAL mainspring.write_ticks(
    ROW(
        CASE WHEN s.brief IS NOT NULL THEN $1::text::text[] END, $2::text::text[], $3::text::bigint[],
        $4::text::bigint[], $5::text::bigint[], $6::text::bigint[], $7::text::uuid[], $8::text::text[],
        $9::text::integer[], $10::text::bigint[], $11::text::bigint[], $12::text::text[], $13::text::text[],
        $14::text::text[], $15::text::boolean[]
    )::mainspring.ticks
) a
