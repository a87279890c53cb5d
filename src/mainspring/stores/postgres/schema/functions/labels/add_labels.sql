-- Labels of executions: labels[n] is one of the execution ids[n]. Those it has already stay as they are.
CREATE OR REPLACE FUNCTION mainspring.add_labels(ids uuid[], labels text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.label (label, id)
    SELECT x.label, x.id FROM unnest(labels, ids) x (label, id) ORDER BY x.label, x.id
    ON CONFLICT DO NOTHING;
END
$$;
