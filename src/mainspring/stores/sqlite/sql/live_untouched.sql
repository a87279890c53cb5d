-- Which of these rows run and have nothing to tell since they were claimed: their fences.
SELECT json_group_array(json_array(id, token, owner)) FROM mainspring_live
WHERE seq IN (SELECT value FROM json_each(?1)) AND phase = 2 AND tail IS NULL AND cancel_requested IS NULL
