kind, scope, key, version, body
