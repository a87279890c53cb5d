SELECT mainspring.prune_numbers($1::text)
