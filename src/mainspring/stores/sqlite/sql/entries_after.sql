SELECT $entry FROM mainspring_entries WHERE (kind, scope, key) > (?1, ?2, ?3) ORDER BY kind, scope, key LIMIT ?4
