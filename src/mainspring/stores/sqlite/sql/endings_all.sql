SELECT job_id, ending, count FROM mainspring_endings
