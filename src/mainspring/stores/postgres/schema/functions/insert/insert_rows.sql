-- Any executions. `known` are the ids of keyless rows that existed already, `outcomes` the results of the others.
-- An audit record with an `execution` or a place `n` among the others is stored if that one was recorded; one without
-- either, as the release before sends it, if anything was.
CREATE OR REPLACE FUNCTION mainspring.insert_rows(
    keyless json, others json, audits json, OUT known uuid[], OUT outcomes json
)
LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    now bigint := mainspring.now_micros();
    keyless_rows mainspring.incoming[] := mainspring.incoming(keyless);
    other_rows mainspring.incoming[] := mainspring.incoming(others);
    special uuid[];
    anything bool;
BEGIN
    IF keyless IS NOT NULL THEN
        known := mainspring.insert_keyless(keyless_rows, now);
    END IF;
    IF others IS NOT NULL THEN
        outcomes := mainspring.insert_each(other_rows, now);
    END IF;
    special := mainspring.limited_rows(keyless_rows, known, other_rows, outcomes);
    IF special IS NOT NULL THEN
        PERFORM mainspring.enter_limited(special);
    END IF;
    IF audits IS NOT NULL THEN
        anything := json_array_length(keyless) > coalesce(cardinality(known), 0)
            OR EXISTS (SELECT FROM json_array_elements(outcomes) one WHERE one->>0 IN ('added', 'skipped'));
        PERFORM mainspring.write_audits(json_agg(a))
        FROM json_array_elements(audits) a
        WHERE CASE
            WHEN a->>'execution' IS NOT NULL THEN (a->>'execution')::uuid <> ALL (coalesce(known, '{}'))
            WHEN a->>'n' IS NOT NULL THEN outcomes->(a->>'n')::int->>0 IN ('added', 'skipped')
            ELSE anything
        END;
    END IF;
END
$$;
