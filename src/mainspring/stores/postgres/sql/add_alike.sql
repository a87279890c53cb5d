-- Bodies that all begin alike come without their beginning, one line each: no line break is inside of one.
SELECT mainspring.add_lines(
    ROW(
        $1::text::uuid[], $2::text::bigint[], string_to_array($3::text, chr(10)), $4::text::text[], $5::text::text[],
        $6::text::text[], $7::text::integer[], NULL, NULL, $8::text::text[], $9::text::uuid, $10::text::uuid
    )::mainspring.bare,
    $11::text, $12::text
)::text
