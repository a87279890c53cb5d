SELECT kind, scope, key, version, body FROM mainspring.entry
WHERE kind = $1::text AND scope = $2::text AND key = ANY ($3::text::text[]) ORDER BY key
