-- Waits hardly at all for a key that an open transaction is about to take: the caller asks again, and holds no connection
-- meanwhile that others could use.
SELECT to_json(a.known)::text, a.outcomes::text
FROM (SELECT set_config('lock_timeout', '10ms', true) AS brief) s
CROSS JOIN LATERAL mainspring.add(
    ROW(
        $1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::integer[], $5::text::bigint[],
        $6::text::bigint[], $7::text::text[], $8::text::text[], $9::text::text[]
    )::mainspring.bare,
    $10::text::json, CASE WHEN s.brief IS NOT NULL THEN $11::text::json END, $12::text::json
) a
