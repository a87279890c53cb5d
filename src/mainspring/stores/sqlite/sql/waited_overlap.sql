-- Those of these keys that rows wait for.
SELECT value FROM json_each(?1)
WHERE EXISTS (SELECT 1 FROM mainspring_live WHERE blocked = 1 AND running_overlap_key = value)
