-- Fresh rows that could not be inserted with the others, one by one. Returns [[position, outcome, holder], ...].
CREATE OR REPLACE FUNCTION mainspring.insert_missed(rows mainspring.fresh, added uuid[], ended uuid[], now bigint)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
    r mainspring.incoming;
    n integer;
    one record;
    refused json[] := '{}';
BEGIN
    FOR n IN
        SELECT x.n FROM unnest(rows.ids) WITH ORDINALITY x (id, n)
        WHERE x.id = ANY (ended) OR x.id <> ALL (coalesce(added, '{}')) ORDER BY x.n
    LOOP
        r.id := rows.ids[n];
        r.created := rows.created[n];
        r.due := coalesce(rows.dues[n], r.created);
        r.body := rows.bodies[n];
        r.job_id := coalesce(rows.job_ids[n], rows.job_ids[1]);
        r.lane := coalesce(rows.lanes[n], rows.lanes[1]);
        r.priority := coalesce(rows.priorities[n], rows.priorities[1]);
        r.foreign_trace := rows.foreign_traces[n];
        r.unique_key := rows.unique_keys[n];
        SELECT * INTO one FROM mainspring.insert_one(r, now);
        IF one.outcome <> 'added' THEN
            refused := refused || json_build_array(n, one.outcome, one.holder);
        END IF;
    END LOOP;
    RETURN nullif(array_to_json(refused)::text, '[]')::json;
END
$$;
