SELECT json_group_array(json_array(-priority, id, seq)) FROM (
    SELECT priority, id, seq FROM mainspring_live WHERE phase = 1 AND lane = ?1 ORDER BY priority DESC, id LIMIT ?2
)
