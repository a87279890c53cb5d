-- Enqueue from anywhere, inside the caller's own transaction: one function, one JSON argument.
--
--   SELECT mainspring.enqueue('{"job": "send-reminder", "params": {"shift_id": "42"}, "unique": "reminder-42"}');
--
-- Fields: job (required), params, unique (a key, or {"enqueued": key, "running": key}), start_at (ISO 8601), priority,
-- queue, tenant, by, metadata, traceparent. The answer is {"id", "outcome", "holder"}; the outcome is added,
-- unique_taken, or skipped by the job's overlap policy. An array enqueues many and answers with an array.
-- A key that is taken is an answer, never an error: the transaction goes on.
-- Rows the client has rendered come as {"keyless": [...], "others": [...], "labels": [...]}.
CREATE OR REPLACE FUNCTION mainspring.enqueue(request json) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    many json;
    one json;
    r mainspring.incoming;
    done record;
    answers json[] := '{}';
    special uuid[];
    labels text[];
BEGIN
    PERFORM pg_notify(split_part('mainspring.', '.', 1), 'work');
    IF json_typeof(request) = 'object' AND (request->'keyless' IS NOT NULL OR request->'others' IS NOT NULL) THEN
        SELECT * INTO done FROM mainspring.insert_rows(request->'keyless', request->'others', NULL);
        IF request->'labels' IS NOT NULL THEN
            PERFORM mainspring.label_added(request->'labels', done.known, done.outcomes);
        END IF;
        RETURN json_build_object('known', done.known, 'outcomes', done.outcomes);
    END IF;
    many := CASE WHEN json_typeof(request) = 'array' THEN request ELSE json_build_array(request) END;
    FOR one IN SELECT * FROM json_array_elements(many) LOOP
        r := mainspring.row_of(one, now);
        SELECT * INTO done FROM mainspring.insert_one(r, now);
        IF done.outcome = 'added' AND (r.share IS NOT NULL OR r.limits IS NOT NULL) THEN
            special := special || r.id;
        END IF;
        IF done.outcome IN ('added', 'skipped') THEN
            SELECT mainspring.search_labels(
                ARRAY(SELECT json_array_elements_text(j.template::json->'search_keys')),
                ((r.body || '}')::json->>'params')::json
            ) INTO labels FROM mainspring.job j WHERE j.name = r.job AND strpos(j.template, '"search_keys":') > 0;
            IF labels IS NOT NULL THEN
                PERFORM mainspring.add_labels(array_agg(r.id), labels) FROM unnest(labels);
            END IF;
        END IF;
        answers := answers || json_build_object('id', r.id, 'outcome', done.outcome, 'holder', done.holder);
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    RETURN CASE WHEN json_typeof(request) = 'array' THEN array_to_json(answers) ELSE answers[1] END;
END
$$;
