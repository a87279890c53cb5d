-- As job_plan, for a job that has a plan and keeps one: the list says so already.
UPDATE mainspring_jobs SET version = version + 1, next_run = ?4, last_tick = ?5, due = ?6
WHERE name = ?1 AND id = ?2 AND version = ?3 AND due IS NOT NULL
