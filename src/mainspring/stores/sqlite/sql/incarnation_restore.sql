-- All that were numbered count as ended; each live execution that follows takes itself off again.
INSERT INTO mainspring_incarnations (job_id, job, last_number, ended) VALUES (?1, ?2, ?3, ?3) ON CONFLICT DO NOTHING
