-- From each queue to the next along the index, however many jobs a queue has.
WITH RECURSIVE found (queue) AS (
    SELECT min(queue) FROM mainspring_job_list
    UNION ALL
    SELECT (SELECT min(queue) FROM mainspring_job_list AS later WHERE later.queue > found.queue) FROM found
    WHERE found.queue IS NOT NULL
)
SELECT queue FROM found WHERE queue IS NOT NULL
