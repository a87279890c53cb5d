-- Executions of ticks that could not be inserted with the others, one by one: most of them are skipped.
CREATE OR REPLACE FUNCTION mainspring.insert_refused_ticks(
    t mainspring.ticks, won bigint[], numbers bigint[], added uuid[], ended uuid[], now bigint
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    row mainspring.incoming;
    one record;
    added_as record;
    answers json[] := '{}';
BEGIN
    FOR one IN
        SELECT r.*, w.number, r.id = ANY (ended) AS known
        FROM unnest(won, numbers) w (place, number)
        JOIN unnest(
            t.jobs, t.job_ids, t.ids, t.lanes, t.priorities, t.created, t.dues, t.bodies, t.overlap_keys,
            t.running_keys, t.staged
        ) WITH ORDINALITY r (
            job, job_id, id, lane, priority, created, due, body, overlap_key, running_key, staged, place
        ) ON r.place = w.place
        WHERE r.id = ANY (ended) OR r.id <> ALL (coalesce(added, '{}'))
        ORDER BY r.place
    LOOP
        row.id := one.id; row.job := one.job; row.job_id := one.job_id; row.state := 'pending'; row.lane := one.lane;
        row.priority := one.priority; row.created := one.created; row.due := one.due; row.body := one.body;
        row.number := one.number; row.staged := one.staged; row.overlap_key := one.overlap_key;
        row.running_overlap_key := one.running_key; row.todo := ((one.body || '}')::json ->> 'todo')::boolean;
        SELECT * INTO added_as FROM mainspring.insert_one(row, now);
        answers := answers || json_build_array(one.place, added_as.outcome, added_as.holder);
    END LOOP;
    RETURN array_to_json(answers);
END
$$;
