SELECT j.name, j.id, j.version, j.origin, j.declared, j.overrides, j.release, j.next_run, j.last_tick, j.anchor,
    j.paused, j.paused_by, j.pause_note, j.resume, j.cancelled, j.sweep, j.created, j.updated, coalesce(i.last_number,
    0)
FROM mainspring.job j LEFT JOIN mainspring.incarnation i ON i.job_id = j.id
WHERE j.name > $1::text ORDER BY j.name LIMIT $2::bigint
