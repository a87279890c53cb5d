-- Progress, counters, log lines and labels of rows that still run under that owner and token. Returns the positions of
-- those stored. The newest 1,000 log lines of an execution are kept.
CREATE OR REPLACE FUNCTION mainspring.report(notes json) RETURNS integer[] LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
DECLARE
    one record;
    last integer;
    stored integer[];
BEGIN
    FOR one IN
        SELECT x.* FROM ROWS FROM (
            json_to_recordset(notes) AS (
                id uuid, token bigint, owner text, progress text, counters text, logs json, labels json, n integer
            )
        ) x ORDER BY x.id, x.n
    LOOP
        UPDATE mainspring.live l SET
            progress = coalesce(one.progress, l.progress), counters = coalesce(one.counters, l.counters)
        WHERE l.id = one.id AND l.phase = 2 AND l.token = one.token AND l.owner = one.owner;
        CONTINUE WHEN NOT FOUND;
        stored := stored || one.n;
        IF one.labels IS NOT NULL THEN
            PERFORM mainspring.add_labels(array_agg(one.id), array_agg(b.label))
            FROM json_array_elements_text(one.labels) b (label);
        END IF;
        IF one.logs IS NOT NULL THEN
            last := coalesce((SELECT max(g.seq) FROM mainspring.log g WHERE g.execution_id = one.id), 0);
            INSERT INTO mainspring.log (execution_id, seq, at, level, message, logger)
            SELECT one.id, last + g.n, (g.line->>0)::bigint, g.line->>1, g.line->>2, coalesce(g.line->>3, '')
            FROM json_array_elements(one.logs) WITH ORDINALITY g (line, n)
            WHERE g.n > json_array_length(one.logs) - 1000;
            last := last + json_array_length(one.logs);
            IF last > 1000 THEN
                DELETE FROM mainspring.log g WHERE g.execution_id = one.id AND g.seq <= last - 1000;
            END IF;
        END IF;
    END LOOP;
    RETURN stored;
END
$$;
