SELECT i.key FROM mainspring.incarnation i WHERE i.job = $1::text ORDER BY i.key DESC
