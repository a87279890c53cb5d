-- Which of these rows history_move.sql has copied: no other row is ever in both tables.
SELECT json_group_array(live.seq)
FROM mainspring_live AS live CROSS JOIN mainspring_history AS history ON history.seq = live.seq
WHERE live.seq IN (SELECT value FROM json_each(?1))
