SELECT array_to_string(kept, ','), cancels::text, now, unknown
FROM mainspring.beat($1::text, $2::text, $3::text, $4::text::uuid[], $5::text::bigint[], $6::bigint)
