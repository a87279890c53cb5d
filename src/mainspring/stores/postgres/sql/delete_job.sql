SELECT mainspring.delete_job($1::text, $2::bigint, $3::boolean, $4::text::json)
