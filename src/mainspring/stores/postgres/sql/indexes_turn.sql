-- Whether it is this process that looks at the indexes now: one of all, at most every so many seconds.
WITH won AS (
    UPDATE mainspring.meta SET value = extract(epoch FROM clock_timestamp())::bigint
    WHERE key = 'indexes' AND value NOT BETWEEN extract(epoch FROM clock_timestamp())::bigint - $1::bigint + 1
        AND extract(epoch FROM clock_timestamp())::bigint
    RETURNING 1
)
SELECT count(*) > 0 FROM won
