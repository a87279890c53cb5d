-- Lanes and due times of rows that are ready, then of those that are planned, in one step. No index has both, and
-- SQLite would sort all rows to group them, which takes four times as long.
SELECT
    json_group_array(lane) FILTER (WHERE due <= ?1), json_group_array(due) FILTER (WHERE due <= ?1),
    json_group_array(lane) FILTER (WHERE due > ?1), json_group_array(due) FILTER (WHERE due > ?1)
FROM mainspring_live NOT INDEXED WHERE phase < 2
