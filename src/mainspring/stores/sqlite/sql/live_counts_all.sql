SELECT job_id, last_number - ended FROM mainspring_incarnations WHERE last_number > ended
