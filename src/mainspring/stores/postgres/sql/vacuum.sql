VACUUM (SKIP_LOCKED, TRUNCATE false, PARALLEL 0) mainspring.live, mainspring.delta, mainspring.limit_state
