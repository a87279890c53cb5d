INSERT INTO mainspring_jobs (
    name, id, origin, declared, overrides, release, next_run, last_tick, anchor,
    paused, paused_by, pause_note, resume, cancelled, sweep, created, updated, due, version
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT DO NOTHING
