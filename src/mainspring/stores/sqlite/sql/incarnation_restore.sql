-- All numbered executions count as ended; each live one that is inserted later subtracts itself.
INSERT INTO mainspring_incarnations (job_id, job, last_number, ended) VALUES (?1, ?2, ?3, ?3) ON CONFLICT DO NOTHING
