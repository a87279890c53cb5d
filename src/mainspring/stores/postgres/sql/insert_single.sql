SELECT mainspring.insert_single(
    $1::uuid, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::integer, $8::bigint, $9::text, $10::text,
    $11::text
)::text
