SELECT count(*) FROM (SELECT 1 FROM mainspring.job LIMIT $1::bigint) x
