SELECT to_json(mainspring.shelve($1::text::json))::text
