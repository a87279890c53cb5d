-- The labels of rows that insert_rows has recorded. `labels` are [{id, n, labels}, ...]: n is the position among the
-- rows with an outcome, NULL for one without a key. `known` and `outcomes` are the answers of the insert.
CREATE OR REPLACE FUNCTION mainspring.label_added(labels json, known uuid[], outcomes json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM mainspring.add_labels(array_agg(x.id), array_agg(l.label))
    FROM json_to_recordset(labels) AS x (id uuid, n integer, labels json)
    CROSS JOIN LATERAL json_array_elements_text(x.labels) l (label)
    WHERE CASE WHEN x.n IS NULL THEN x.id <> ALL (coalesce(known, '{}'))
               ELSE outcomes->(x.n - 1)->>0 IN ('added', 'skipped') END
    HAVING count(*) > 0;
END
$$;
