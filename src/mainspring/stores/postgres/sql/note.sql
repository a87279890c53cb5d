SELECT to_json(mainspring.note($1::text::json))::text
