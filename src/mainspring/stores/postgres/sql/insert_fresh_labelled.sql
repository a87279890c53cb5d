-- As insert_fresh, with labels.
SELECT mainspring.insert_labelled(
    ROW(
        $1::text::uuid[], $2::text::bigint[], string_to_array($3::text, $4::text), $6::text::text[], $7::text::text[],
        $8::text::text[], $9::text::integer[], $10::text::bigint[], $11::text::text[], $12::text::text[],
        $13::text::uuid, $14::text::uuid
    )::mainspring.fresh,
    $5::text, $15::text, $16::text::integer[], $17::text::text[]
)::text
