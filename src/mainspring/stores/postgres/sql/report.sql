SELECT to_json(mainspring.report($1::text::json))::text
