-- A job gets its key when it is written; this gives one to jobs of executions that were never written.
CREATE OR REPLACE FUNCTION mainspring.ensure_incarnations(ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.incarnation (job_id, job)
    SELECT DISTINCT r.job_id, r.job FROM unnest(ids, names) r (job_id, job)
    WHERE NOT EXISTS (SELECT FROM mainspring.incarnation i WHERE i.job_id = r.job_id)
    ORDER BY r.job_id
    ON CONFLICT DO NOTHING;
END
$$;
