DELETE FROM mainspring_workers WHERE id = ?1
