SELECT mainspring.write_jobs($1::text::json)::text
