-- The usual exchange: see part_exchange_objects.sql. Numbers below 0 only fill up the statement.
INSERT INTO mainspring_exchange (seq, at, attempts, tail) VALUES /*rows*/(?, ?, ?, ?)/*end*/, (0, NULL, NULL, ?)
ON CONFLICT (seq) DO UPDATE SET tail = excluded.tail
