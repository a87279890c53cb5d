INSERT INTO mainspring_purges (job_id) VALUES (?1) ON CONFLICT DO NOTHING
