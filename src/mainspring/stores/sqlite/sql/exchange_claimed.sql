-- What the exchange before has claimed, with the terms of the claim (?2) in front as in live_rows.sql; the lanes that have
-- ready rows now, and when the next row becomes ready.
SELECT
    (
        SELECT group_concat(?2 || ltrim(body, '{'))
        FROM (SELECT seq FROM mainspring_taken LIMIT 10000) AS taken
        CROSS JOIN mainspring_executions AS execution ON execution.seq = taken.seq
    ),
    (SELECT json_group_array(seq) FROM mainspring_taken),
    (SELECT names FROM mainspring_ready_lanes),
    ($next_due)
