-- The month is attached, not created in place, so that reads and writes of other partitions continue. Rows of that
-- month that came too early are moved out of the default partition first. The check spares the server a scan of all
-- rows when it attaches the month; it is dropped afterwards, because each new row would be checked against it.
-- Statistics: see 0003_triage.sql.
CREATE OR REPLACE FUNCTION mainspring.make_partition(month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := to_char(month, '"history_"YYYY_MM');
    low uuid;
    high uuid;
BEGIN
    IF to_regclass('mainspring.' || name) IS NOT NULL THEN
        RETURN false;
    END IF;
    SELECT b.low, b.high INTO low, high FROM mainspring.month_bounds(month) b;
    EXECUTE format('CREATE TABLE mainspring.%I (LIKE mainspring.history INCLUDING DEFAULTS)', name);
    EXECUTE format('ALTER TABLE mainspring.%I ADD CONSTRAINT of_month CHECK (id >= %L AND id < %L)', name, low, high);
    LOCK TABLE mainspring.history_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH moved AS (DELETE FROM mainspring.history_default WHERE id >= %L AND id < %L RETURNING *)
         INSERT INTO mainspring.%I SELECT * FROM moved', low, high, name
    );
    EXECUTE format(
        'ALTER TABLE mainspring.history ATTACH PARTITION mainspring.%I FOR VALUES FROM (%L) TO (%L)', name, low, high
    );
    EXECUTE format('ALTER TABLE mainspring.%I DROP CONSTRAINT of_month', name);
    EXECUTE format('CREATE STATISTICS mainspring.%I ON job_key, state FROM mainspring.%I', name || '_of_jobs', name);
    RETURN true;
END
$$;
