SELECT mainspring.ensure_incarnations($1::text::text[], $2::text::text[])
