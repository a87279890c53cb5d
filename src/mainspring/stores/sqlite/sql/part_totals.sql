job_id, completed, partial, failed, cancelled, skipped, duration_ms, timed, rescued,
last_id, last_state, last_started, last_finished, last_error, last_failures
