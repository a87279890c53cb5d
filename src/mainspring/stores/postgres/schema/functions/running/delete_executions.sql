-- Deletes finished executions, each with its audit record, except those whose follow-ups are not done. Returns the
-- positions of those that are gone.
CREATE OR REPLACE FUNCTION mainspring.delete_executions(requests json) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    gone uuid[];
    positions integer[];
    audits json;
BEGIN
    gone := mainspring.remove_finished(ARRAY(
        SELECT x.id FROM json_to_recordset(requests) AS x (id uuid) ORDER BY x.id
    ));
    SELECT array_agg(d.n), json_agg(d.audit) INTO positions, audits FROM (
        SELECT DISTINCT ON (x.id) x.n, x.audit
        FROM json_to_recordset(requests) AS x (id uuid, audit json, n integer)
        WHERE x.id = ANY (gone) ORDER BY x.id, x.n
    ) d;
    IF audits IS NOT NULL THEN
        PERFORM mainspring.write_audits(audits);
    END IF;
    RETURN positions;
END
$$;
