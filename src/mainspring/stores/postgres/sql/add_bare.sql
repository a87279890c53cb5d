SELECT mainspring.add_bare(
    ROW(
        $1::text::uuid[], $2::text::bigint[], string_to_array($3::text, '}' || chr(10)), $4::text::text[], $5::text::text[],
        $6::text::text[], $7::text::integer[], $8::text::bigint[], $9::text::text[], $10::text::text[], $11::text::uuid,
        $12::text::uuid
    )::mainspring.bare,
    $13::text
)::text
