DELETE FROM mainspring_locks WHERE expires <= ?1
