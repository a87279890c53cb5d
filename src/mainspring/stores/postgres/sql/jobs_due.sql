-- Jobs whose time has come, each with the store's now and when the first of the others is due. There is always one row.
WITH clock AS MATERIALIZED (SELECT mainspring.now_micros() AS now)
SELECT clock.now, (SELECT n.due FROM mainspring.job n WHERE n.due > clock.now ORDER BY n.due LIMIT 1),
    j.due, j.name, j.id, j.version, j.origin, j.declared, j.overrides, j.release, j.next_run, j.last_tick, j.anchor,
    j.paused, j.paused_by, j.pause_note, j.resume, j.cancelled, j.sweep, j.created, j.updated, coalesce(i.last_number, 0)
FROM clock
LEFT JOIN LATERAL (
    SELECT * FROM mainspring.job d WHERE d.due <= clock.now ORDER BY d.due, d.name LIMIT $1::bigint
) j ON true
LEFT JOIN mainspring.incarnation i ON i.job_id = j.id
ORDER BY j.due, j.name
