INSERT INTO mainspring_incarnations (job_id, job, last_number, ended) VALUES (?1, ?2, ?3, 0)
ON CONFLICT (job_id) DO UPDATE SET last_number = excluded.last_number
