UPDATE mainspring_live SET
    cancel_requested = coalesce(cancel_requested, ?3),
    cancel_reason = iif(cancel_requested IS NULL, ?4, cancel_reason)
WHERE seq = (SELECT seq FROM mainspring_executions WHERE id = ?1) AND token = ?2 AND phase = 2
