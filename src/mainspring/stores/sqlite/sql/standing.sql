-- Where those of these rows that are parked or were woken stand: key, line and place.
SELECT seq, parked, line, place FROM mainspring_live
WHERE seq IN (SELECT value FROM json_each(?1)) AND parked IS NOT NULL
