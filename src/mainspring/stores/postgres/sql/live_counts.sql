SELECT i.job_id, count(*) FILTER (WHERE l.phase < 2), count(*) FILTER (WHERE l.phase = 2),
    count(*) FILTER (WHERE l.phase = 3)
FROM mainspring.live l JOIN mainspring.incarnation i ON i.key = l.job_key
WHERE $1::text IS NULL OR i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
GROUP BY i.job_id
