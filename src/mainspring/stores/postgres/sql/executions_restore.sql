SELECT mainspring.restore($1::text::json, $2::text::uuid[], $3::text::json)
