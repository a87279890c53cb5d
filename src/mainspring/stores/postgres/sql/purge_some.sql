SELECT mainspring.purge_some($1::integer)
