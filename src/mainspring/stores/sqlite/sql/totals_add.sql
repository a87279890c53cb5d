-- As stores.common.rows.merge_stats: counts are added up, the `last` columns are those of the newest id.
INSERT INTO mainspring_totals ($totals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET
    completed = completed + excluded.completed,
    partial = partial + excluded.partial,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    skipped = skipped + excluded.skipped,
    duration_ms = duration_ms + excluded.duration_ms,
    timed = timed + excluded.timed,
    rescued = rescued + excluded.rescued,
    last_id = max(last_id, excluded.last_id),
    last_state = iif(last_id >= excluded.last_id, last_state, excluded.last_state),
    last_started = iif(last_id >= excluded.last_id, last_started, excluded.last_started),
    last_finished = iif(last_id >= excluded.last_id, last_finished, excluded.last_finished),
    last_error = iif(last_id >= excluded.last_id, last_error, excluded.last_error),
    last_failures = iif(last_id >= excluded.last_id, last_failures, excluded.last_failures)
