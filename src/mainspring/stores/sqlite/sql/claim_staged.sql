-- The running keys replace the keys; the unique indexes refuse that if one is held.
UPDATE OR IGNORE mainspring_live SET
    phase = 2, token = ((token >> 32) + 1) << 32 | ?2, owner = ?1, lease = ?3, claimed = ?4, started = coalesce(started, ?4),
    unique_key = running_unique_key, overlap_key = running_overlap_key, staged = 0
WHERE seq = ?5
