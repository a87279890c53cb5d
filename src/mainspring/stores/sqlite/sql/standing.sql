-- Of these rows, those that are parked or were woken: what for, and their place.
SELECT seq, parked, line, place FROM mainspring_live
WHERE seq IN (SELECT value FROM json_each(?1)) AND parked IS NOT NULL
