INSERT OR REPLACE INTO mainspring_job_list (
    name, id, handler, queue, origin, paused, cancelled, planned, created, updated, search, labels
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
