SELECT mainspring.know_jobs($1::text::text[], $2::text::text[])
