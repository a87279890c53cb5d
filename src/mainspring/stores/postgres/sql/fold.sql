SELECT mainspring.fold($1::integer)
