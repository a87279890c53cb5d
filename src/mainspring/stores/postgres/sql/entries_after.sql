SELECT kind, scope, key, version, body FROM mainspring.entry
WHERE (kind, scope, key) > ($1::text, $2::text, $3::text) ORDER BY kind, scope, key LIMIT $4::bigint
