SELECT kind, scope, key, version, body FROM mainspring.entry
WHERE kind = $1::text AND scope = $2::text AND key > $3::text ORDER BY key LIMIT $4::bigint
