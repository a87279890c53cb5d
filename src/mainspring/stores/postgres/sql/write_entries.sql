SELECT to_json(mainspring.write_entries($1::text::json))::text
