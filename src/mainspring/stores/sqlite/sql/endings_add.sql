INSERT INTO mainspring_endings (job_id, ending, count) VALUES (?1, ?2, ?3)
$endings_merge
