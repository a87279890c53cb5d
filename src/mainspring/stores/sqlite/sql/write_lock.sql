-- Changes nothing, but takes the write lock: all that follows in the transaction is safe from other writers.
UPDATE mainspring_meta SET value = value WHERE key = 'schema'
