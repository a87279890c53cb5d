UPDATE mainspring_meta SET value = value + 1 WHERE key = 'lock_token' RETURNING value
