SELECT max(finished) FROM mainspring_history WHERE parent_id = ?1
