-- As insert_rows, with labels.
SELECT to_json(a.known)::text, a.outcomes::text
FROM (SELECT set_config('lock_timeout', '10ms', true) AS brief) s
CROSS JOIN LATERAL mainspring.insert_labelled(
    $1::text::json, CASE WHEN s.brief IS NOT NULL THEN $2::text::json END, $3::text::json, $4::text::json
) a
