SELECT array_to_string(kept, ','), cancels::text, now
FROM mainspring.heartbeat($1::text, $2::text, $3::text::uuid[], $4::text::bigint[], $5::bigint)
