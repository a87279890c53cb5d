SELECT to_json(mainspring.request_cancel($1::text::json))::text
