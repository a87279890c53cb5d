-- As insert_single, with labels.
SELECT mainspring.insert_labelled(
    $1::uuid, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::integer, $8::bigint, $9::text, $10::text,
    $11::text, $12::text::text[]
)::text
