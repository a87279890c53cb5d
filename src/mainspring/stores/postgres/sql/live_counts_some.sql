SELECT i.job_id, p.pending, a.running, a.waiting
FROM mainspring.incarnation i
CROSS JOIN LATERAL (
    SELECT count(*) AS pending FROM mainspring.live l WHERE l.phase < 2 AND l.job_key = i.key
) p
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE l.phase = 2) AS running, count(*) FILTER (WHERE l.phase = 3) AS waiting
    FROM mainspring.live l WHERE l.phase >= 2 AND l.job_key = i.key
) a
WHERE i.job_id = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))
    AND p.pending + a.running + a.waiting > 0
