SELECT id FROM mainspring_live WHERE unique_key = ?1
