-- The ids of a job in their order get the next numbers, and rows that were not kept the ones after. Jobs are locked in
-- the order of their names, as the scheduler locks them. Usually all ids are of one span, and need not be split.
CREATE OR REPLACE FUNCTION mainspring.give_numbers(folded mainspring.delta[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    at_once CONSTANT integer := 500;
    job record;
    base bigint;
    first_span bigint;
    total integer;
BEGIN
    FOR job IN
        SELECT i.key, s.dropped, coalesce(x.ids, '{}') AS ids
        FROM (SELECT d.job_key, sum(d.dropped) AS dropped FROM unnest(folded) d GROUP BY d.job_key) s
        JOIN mainspring.incarnation i ON i.key = s.job_key
        LEFT JOIN (
            SELECT e.job_key, array_agg(e.id ORDER BY e.id) AS ids
            FROM (SELECT d.job_key, unnest(d.ids) AS id FROM unnest(folded) d) e GROUP BY e.job_key
        ) x ON x.job_key = s.job_key
        WHERE s.dropped > 0 OR x.ids IS NOT NULL
        ORDER BY i.job, i.key
    LOOP
        total := cardinality(job.ids);
        UPDATE mainspring.incarnation SET last_number = last_number + total + job.dropped
        WHERE key = job.key
        RETURNING last_number - total - job.dropped INTO base;
        first_span := mainspring.span_of(job.ids[1]);
        IF first_span = mainspring.span_of(job.ids[total]) THEN
            INSERT INTO mainspring.numbers (job_key, span, low, high, first, ids)
            SELECT job.key, first_span, job.ids[n], job.ids[least(n + at_once - 1, total)], base + n,
                job.ids[n:n + at_once - 1]
            FROM generate_series(1, total, at_once) n;
        ELSE
            INSERT INTO mainspring.numbers (job_key, span, low, high, first, ids)
            SELECT job.key, s.span, s.ids[1], s.ids[cardinality(s.ids)], base + s.first, s.ids
            FROM (
                SELECT x.span, min(x.n) AS first, array_agg(x.id ORDER BY x.n) AS ids
                FROM (
                    SELECT i.id, i.n, mainspring.span_of(i.id) AS span
                    FROM unnest(job.ids) WITH ORDINALITY i (id, n)
                ) x
                GROUP BY x.span, (x.n - 1) / at_once
            ) s;
        END IF;
    END LOOP;
END
$$;
