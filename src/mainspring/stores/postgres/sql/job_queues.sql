-- From each queue to the next along the index, however many jobs a queue has.
WITH RECURSIVE found (queue) AS (
    (SELECT j.queue FROM mainspring.job_list j ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM mainspring.job_list j WHERE j.queue > f.queue ORDER BY j.queue LIMIT 1) FROM found f
    WHERE f.queue IS NOT NULL
)
SELECT f.queue FROM found f WHERE f.queue IS NOT NULL
