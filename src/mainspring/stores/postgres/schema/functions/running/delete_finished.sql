-- Deletes finished executions, their log lines and labels, except those whose follow-ups are not done. Returns how many.
CREATE OR REPLACE FUNCTION mainspring.delete_finished(ids uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce(cardinality(mainspring.remove_finished(ids)), 0);
END
$$;
