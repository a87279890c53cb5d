VACUUM (SKIP_LOCKED, TRUNCATE false) mainspring.live, mainspring.delta, mainspring.limit_state
