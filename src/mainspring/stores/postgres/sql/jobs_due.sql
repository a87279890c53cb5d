SELECT * FROM mainspring.due_jobs($1::bigint)
