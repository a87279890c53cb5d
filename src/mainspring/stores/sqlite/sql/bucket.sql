SELECT level, since, rate, burst FROM mainspring_buckets WHERE key = ?1
