-- The running keys replace the keys; the unique indexes refuse that if one is held.
UPDATE OR IGNORE mainspring_live SET
    phase = 2, token = token + 1, owner = ?1, lease = ?2, claimed = ?3, started = coalesce(started, ?3),
    unique_key = running_unique_key, overlap_key = running_overlap_key, staged = 0
WHERE seq = ?4
