SELECT mainspring.cancels($1::text)::text
