SELECT to_json(mainspring.delete_executions($1::text::json))::text
