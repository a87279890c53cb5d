SELECT mainspring.delete_finished($1::text::uuid[])
