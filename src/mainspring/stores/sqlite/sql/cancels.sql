SELECT id, cancel_reason FROM mainspring_live
WHERE owner = ?1 AND cancel_requested IS NOT NULL AND phase = 2
