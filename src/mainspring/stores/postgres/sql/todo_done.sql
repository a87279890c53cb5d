SELECT mainspring.todo_done($1::text::uuid[])
