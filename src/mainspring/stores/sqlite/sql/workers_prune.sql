DELETE FROM mainspring_workers WHERE seen < ?1
