INSERT OR REPLACE INTO mainspring_buckets (key, level, since, rate, burst) VALUES (?1, ?2, ?3, ?4, ?5)
