INSERT INTO mainspring_endings (job_id, ending, count) VALUES (?1, ?2, ?3)
ON CONFLICT (job_id, ending) DO UPDATE SET count = count + excluded.count
