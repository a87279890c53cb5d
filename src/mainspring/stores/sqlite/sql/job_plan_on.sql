-- As job_plan, for a job that had a `due` and keeps one: its row in the job list stays as it is.
UPDATE mainspring_jobs SET version = version + 1, next_run = ?4, last_tick = ?5, due = ?6
WHERE name = ?1 AND id = ?2 AND version = ?3 AND due IS NOT NULL
