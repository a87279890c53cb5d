-- Live executions by id. One text with all of them: one step, however many rows, and the lock of the
-- interpreter is given up once instead of once per row.
SELECT group_concat($live)
FROM (SELECT * FROM mainspring_live WHERE id IN (SELECT value FROM json_each(?1)))
