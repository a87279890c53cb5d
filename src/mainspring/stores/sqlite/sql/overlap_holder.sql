SELECT id FROM mainspring_live WHERE overlap_key = ?1
