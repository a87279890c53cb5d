SELECT id, cancel_reason FROM mainspring_live INDEXED BY mainspring_live_cancel
WHERE cancel_requested IS NOT NULL AND owner = ?1 AND phase = 2
