SELECT count(*) FROM (SELECT 1 FROM mainspring_jobs LIMIT ?1)
