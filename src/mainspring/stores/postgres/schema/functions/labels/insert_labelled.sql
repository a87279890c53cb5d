-- insert_fresh, insert_single and insert_rows for rows with labels.

-- labels[n] is one of the row at places[n]. Labels of rows that were all added are new, unless an older release has
-- deleted an execution with the same id and left them behind: as in insert_fresh, ON CONFLICT is used only then.
CREATE OR REPLACE FUNCTION mainspring.insert_labelled(
    rows mainspring.fresh, opening text, news text, places integer[], labels text[]
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    refused json := mainspring.insert_fresh(rows, opening, news);
    ids uuid[] := rows.ids;
BEGIN
    IF refused IS NULL THEN
        BEGIN
            INSERT INTO mainspring.label (label, id)
            SELECT x.label, ids[x.place] FROM unnest(places, labels) x (place, label);
            RETURN NULL;
        EXCEPTION
            WHEN unique_violation THEN NULL;
        END;
    END IF;
    INSERT INTO mainspring.label (label, id)
    SELECT x.label, ids[x.place] FROM unnest(places, labels) x (place, label)
    WHERE refused IS NULL OR NOT EXISTS (
        SELECT FROM json_array_elements(refused) r WHERE (r->>0)::integer = x.place
    )
    ON CONFLICT DO NOTHING;
    RETURN refused;
END
$$;

CREATE OR REPLACE FUNCTION mainspring.insert_labelled(
    wanted uuid, at bigint, its_body text, its_job_id text, its_job text, its_lane text, its_priority integer,
    its_due bigint, trace text, its_key text, news text, labels text[]
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    refused json := mainspring.insert_single(
        wanted, at, its_body, its_job_id, its_job, its_lane, its_priority, its_due, trace, its_key, news
    );
BEGIN
    IF refused IS NULL THEN
        INSERT INTO mainspring.label (label, id) SELECT x.label, wanted FROM unnest(labels) x (label)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN refused;
END
$$;

CREATE OR REPLACE FUNCTION mainspring.insert_labelled(
    keyless json, others json, audits json, labels json, OUT known uuid[], OUT outcomes json
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT i.known, i.outcomes INTO known, outcomes FROM mainspring.insert_rows(keyless, others, audits) i;
    PERFORM mainspring.label_added(labels, known, outcomes);
END
$$;
