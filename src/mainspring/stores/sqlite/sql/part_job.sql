name, id, version, origin, declared, overrides, release, next_run, last_tick, anchor,
paused, paused_by, pause_note, resume, cancelled, sweep, created, updated,
coalesce((SELECT last_number FROM mainspring_incarnations WHERE job_id = mainspring_jobs.id), 0)
