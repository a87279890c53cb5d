-- Nothing has happened to the execution since it was added: what it is stands in its body, word for word.
phase < 2 AND token = 0 AND staged = 0 AND tail IS NULL
AND coalesce(owner, lease, claimed, started, cancel_requested, cancel_reason) IS NULL
