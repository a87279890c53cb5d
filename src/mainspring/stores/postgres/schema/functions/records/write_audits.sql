-- Audit records, each at most once.
CREATE OR REPLACE FUNCTION mainspring.write_audits(audits json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.audit (id, at, actor, action, target, before, after, request_id)
    SELECT id, at, actor, action, target, before, after, request_id
    FROM json_populate_recordset(NULL::mainspring.audit, audits)
    ON CONFLICT DO NOTHING;
END
$$;
