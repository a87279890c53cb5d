SELECT n_dead_tup, n_live_tup FROM pg_stat_all_tables WHERE relid = 'mainspring.live'::regclass
