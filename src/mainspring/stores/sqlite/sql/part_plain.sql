-- A row that has not changed since it was inserted: its body is the whole execution.
phase < 2 AND token = 0 AND staged = 0 AND tail IS NULL
AND coalesce(owner, lease, claimed, started, cancel_requested, cancel_reason) IS NULL
