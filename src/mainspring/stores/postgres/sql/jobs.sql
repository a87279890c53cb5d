SELECT j.name, j.id, j.version, j.origin, j.declared, j.overrides, j.release, j.next_run, j.last_tick, j.anchor,
    j.paused, j.paused_by, j.pause_note, j.resume, j.cancelled, j.sweep, j.created, j.updated,
    coalesce((SELECT i.last_number FROM mainspring.incarnation i WHERE i.job_id = j.id), 0)
FROM unnest($1::text::text[]) w (name) JOIN mainspring.job j ON j.name = w.name
ORDER BY j.name
