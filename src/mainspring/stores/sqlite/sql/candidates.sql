-- The best rows of each of these lanes, lane by lane, in one step.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(-priority, seq)) FROM (
        SELECT priority, seq FROM mainspring_live
        WHERE phase = 1 AND lane = wanted.value ORDER BY priority DESC, tag, id LIMIT ?2
    )
))) FROM json_each(?1) AS wanted
