-- Changes nothing, but takes the write lock for the rest of the transaction.
UPDATE mainspring_meta SET value = value WHERE key = 'schema'
