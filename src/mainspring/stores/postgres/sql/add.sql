SELECT to_json(known)::text, outcomes::text FROM mainspring.add($1::text::json, $2::text::json, $3::text::json)
