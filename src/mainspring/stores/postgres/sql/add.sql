SELECT to_json(known)::text, outcomes::text
FROM mainspring.add(
    ROW(
        $1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::integer[], $5::text::bigint[],
        $6::text::bigint[], $7::text::text[], $8::text::text[], $9::text::text[]
    )::mainspring.bare,
    $10::text::json, $11::text::json, $12::text::json
)
