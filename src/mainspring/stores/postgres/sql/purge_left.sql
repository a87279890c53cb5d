SELECT job_key FROM mainspring.purge LIMIT 1
