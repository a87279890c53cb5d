SELECT json_group_array(json_array(-priority, id)) FROM (
    SELECT priority, id FROM mainspring_live WHERE phase = 1 AND lane = ?1 ORDER BY priority DESC, id LIMIT ?2
)
