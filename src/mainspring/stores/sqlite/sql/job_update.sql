UPDATE mainspring_jobs SET
    version = version + 1, origin = ?3, declared = ?4, overrides = ?5, release = ?6, next_run = ?7, last_tick = ?8,
    anchor = ?9, paused = ?10, paused_by = ?11, pause_note = ?12, resume = ?13, cancelled = ?14, sweep = ?15,
    created = ?16, updated = ?17, due = ?18
WHERE name = ?1 AND id = ?2 AND version = ?19
