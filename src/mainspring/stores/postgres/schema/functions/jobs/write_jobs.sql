-- `writes` are [{job, seen, audit, keyless, others, labels}, ...] in the order of names, no name twice. Returns one
-- {known, outcomes} for each write that won, null for the others.
CREATE OR REPLACE FUNCTION mainspring.write_jobs(writes json) RETURNS json LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    one record;
    answer json;
    answers json[] := '{}';
    special uuid[];
    known uuid[];
BEGIN
    FOR one IN
        SELECT x.job, x.seen, x.audit, x.keyless, x.others, x.labels FROM json_to_recordset(writes) AS x (
            job mainspring.job, seen bigint, audit json, keyless mainspring.incoming[], others mainspring.incoming[],
            labels json
        )
    LOOP
        IF NOT mainspring.write_job(one.job, one.seen) THEN
            answers := answers || 'null'::json;
            CONTINUE;
        END IF;
        IF one.audit IS NOT NULL THEN
            PERFORM mainspring.write_audits(json_build_array(one.audit));
        END IF;
        answer := mainspring.insert_tick_rows((one.job).id, one.keyless, one.others, now);
        answers := answers || answer;
        IF one.keyless IS NOT NULL OR one.others IS NOT NULL THEN
            known := ARRAY(SELECT json_array_elements_text(nullif(answer->>'known', '')::json))::uuid[];
            special := special || mainspring.limited_rows(
                one.keyless, known, one.others, nullif(answer->>'outcomes', '')::json
            );
            IF one.labels IS NOT NULL THEN
                PERFORM mainspring.label_added(one.labels, known, nullif(answer->>'outcomes', '')::json);
            END IF;
        END IF;
    END LOOP;
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    RETURN array_to_json(answers);
END
$$;
