-- Removes the row of a deleted job from `job_list`.
CREATE OR REPLACE FUNCTION mainspring.unlist_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mainspring.job_list l WHERE l.name = old.name;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER list_gone AFTER DELETE ON mainspring.job
FOR EACH ROW EXECUTE FUNCTION mainspring.unlist_job();
