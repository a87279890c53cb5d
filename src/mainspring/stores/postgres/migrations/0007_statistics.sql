-- Statistics and numbers. One folder at a time: whoever comes second finds less to do.

CREATE FUNCTION mainspring.fold(most integer) RETURNS integer LANGUAGE plpgsql
    SET jit = off
AS $$
DECLARE
    folded mainspring.delta[];
BEGIN
    PERFORM pg_advisory_xact_lock('mainspring.delta'::regclass::oid::bigint);
    WITH taken AS (
        DELETE FROM mainspring.delta WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM mainspring.delta d LIMIT most)) RETURNING *
    )
    SELECT array_agg(t::mainspring.delta) INTO folded FROM taken t;
    IF folded IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO mainspring.totals AS t
    SELECT d.job_key, sum(d.completed), sum(d.partial), sum(d.failed), sum(d.cancelled), sum(d.skipped),
        sum(d.duration_ms), sum(d.timed), sum(d.rescued), NULL, NULL, NULL, NULL, NULL, 0
    FROM unnest(folded) d GROUP BY d.job_key ORDER BY d.job_key
    ON CONFLICT (job_key) DO UPDATE SET
        completed = t.completed + excluded.completed, partial = t.partial + excluded.partial,
        failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped, duration_ms = t.duration_ms + excluded.duration_ms,
        timed = t.timed + excluded.timed, rescued = t.rescued + excluded.rescued;
    UPDATE mainspring.totals t SET
        last_id = d.last_id, last_state = d.last_state, last_started = d.last_started,
        last_finished = d.last_finished, last_error = d.last_error, last_failures = d.last_failures
    FROM (
        SELECT DISTINCT ON (d.job_key) d.* FROM unnest(folded) d WHERE d.last_id IS NOT NULL
        ORDER BY d.job_key, d.last_id DESC
    ) d
    WHERE t.job_key = d.job_key AND (t.last_id IS NULL OR t.last_id < d.last_id);
    PERFORM mainspring.give_numbers(folded);
    RETURN cardinality(folded);
END
$$;

-- The ids of a job in their order get the next numbers, and those whose rows were not kept the ones after. Jobs are
-- locked in the order of their names, as the scheduler locks them.
CREATE FUNCTION mainspring.give_numbers(folded mainspring.delta[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    job record;
    base bigint;
    first_span bigint;
    one_span boolean;  -- as a rule: then the ids need not be read for it one by one
BEGIN
    FOR job IN
        SELECT i.key, s.dropped, coalesce(x.ids, '{}') AS ids
        FROM (SELECT d.job_key, sum(d.dropped) AS dropped FROM unnest(folded) d GROUP BY d.job_key) s
        JOIN mainspring.incarnation i ON i.key = s.job_key
        LEFT JOIN (
            SELECT d.job_key, array_agg(e.id ORDER BY e.id) AS ids
            FROM unnest(folded) d CROSS JOIN LATERAL unnest(d.ids) e (id) GROUP BY d.job_key
        ) x ON x.job_key = s.job_key
        WHERE s.dropped > 0 OR x.ids IS NOT NULL
        ORDER BY i.job, i.key
    LOOP
        UPDATE mainspring.incarnation SET last_number = last_number + cardinality(job.ids) + job.dropped
        WHERE key = job.key
        RETURNING last_number - cardinality(job.ids) - job.dropped INTO base;
        first_span := mainspring.span_of(job.ids[1]);
        one_span := first_span = mainspring.span_of(job.ids[cardinality(job.ids)]);
        INSERT INTO mainspring.numbers (job_key, span, low, high, first, ids)
        SELECT job.key, s.span, s.ids[1], s.ids[cardinality(s.ids)], base + s.first, s.ids
        FROM (
            SELECT x.span, min(x.n) AS first, array_agg(x.id ORDER BY x.n) AS ids
            FROM (
                SELECT i.id, i.n, CASE WHEN one_span THEN first_span ELSE mainspring.span_of(i.id) END AS span
                FROM unnest(job.ids) WITH ORDINALITY i (id, n)
            ) x
            GROUP BY x.span, (x.n - 1) / 500
        ) s;
    END LOOP;
END
$$;

-- Numbers of executions that are gone: those made before the oldest one that is left.
CREATE FUNCTION mainspring.prune_numbers(of_job text) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    k integer := (SELECT i.key FROM mainspring.incarnation i WHERE i.job_id = of_job);
    oldest uuid := least(
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state = 'completed' ORDER BY h.id LIMIT 1),
        (SELECT h.id FROM mainspring.history h WHERE h.job_key = k AND h.state <> 'completed' ORDER BY h.id LIMIT 1)
    );
BEGIN
    DELETE FROM mainspring.numbers n
    WHERE n.job_key = k AND n.span < mainspring.span_of(coalesce(oldest, mainspring.id_at(mainspring.now_micros())));
END
$$;
