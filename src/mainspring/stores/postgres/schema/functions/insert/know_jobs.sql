-- Jobs are given their key when they are written; this is for executions of a job that never was.
CREATE OR REPLACE FUNCTION mainspring.know_jobs(ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mainspring.incarnation (job_id, job)
    SELECT DISTINCT r.job_id, r.job FROM unnest(ids, names) r (job_id, job)
    WHERE NOT EXISTS (SELECT FROM mainspring.incarnation i WHERE i.job_id = r.job_id)
    ORDER BY r.job_id
    ON CONFLICT DO NOTHING;
END
$$;
