SELECT kind, scope, key, version, body FROM mainspring.shelf
WHERE kind = $1::text AND scope = $2::text AND key = ANY ($3::text::text[]) ORDER BY key
