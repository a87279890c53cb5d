-- History is partitioned by month of creation. Partitions are made ahead, here and by whoever folds statistics; what
-- fits none (a backfill of years ago, a long absence) lies in the default partition and is found there all the same.
-- Retention deletes by job and state; a month that has become empty is dropped, which gives its space back.

CREATE FUNCTION mainspring.month_bounds(month date, OUT low uuid, OUT high uuid) LANGUAGE sql IMMUTABLE AS $$
    SELECT mainspring.id_at((extract(epoch FROM month::timestamp AT TIME ZONE 'UTC') * 1000000)::bigint),
           mainspring.id_at((extract(epoch FROM (month + interval '1 month') AT TIME ZONE 'UTC') * 1000000)::bigint)
$$;

-- Attached, not created in place: that lets reads and writes of other partitions go on. Rows of that month that came
-- too early are moved out of the default partition first.
CREATE FUNCTION mainspring.make_partition(month date) RETURNS boolean LANGUAGE plpgsql AS $$
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
    EXECUTE format('ALTER TABLE mainspring.%I ADD CHECK (id >= %L AND id < %L)', name, low, high);
    LOCK TABLE mainspring.history_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH moved AS (DELETE FROM mainspring.history_default WHERE id >= %L AND id < %L RETURNING *)
         INSERT INTO mainspring.%I SELECT * FROM moved', low, high, name
    );
    EXECUTE format(
        'ALTER TABLE mainspring.history ATTACH PARTITION mainspring.%I FOR VALUES FROM (%L) TO (%L)', name, low, high
    );
    RETURN true;
END
$$;

CREATE FUNCTION mainspring.drop_empty_partitions(before date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    name text;
    filled boolean;
    dropped integer := 0;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'mainspring.history'::regclass AND c.relname ~ '^history_\d{4}_\d{2}$'
            AND to_date(c.relname, '"history_"YYYY_MM') < before
        ORDER BY 1
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM mainspring.%I)', name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('LOCK TABLE ONLY mainspring.history, mainspring.%I IN ACCESS EXCLUSIVE MODE', name);
        EXECUTE format('SELECT EXISTS (SELECT FROM mainspring.%I)', name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('DROP TABLE mainspring.%I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

-- Once an hour, by whoever comes first: this month and the next two exist, empty months of the past do not. It waits
-- for nobody: what is locked now is tried again in an hour. Who may not create tables leaves it to `mainspring db migrate`.
CREATE FUNCTION mainspring.keep_partitions() RETURNS boolean LANGUAGE plpgsql
    SET lock_timeout = '200ms'
AS $$
DECLARE
    hour CONSTANT bigint := extract(epoch FROM clock_timestamp())::bigint / 3600;
    month date := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
    IF EXISTS (SELECT FROM mainspring.meta WHERE key = 'partitions' AND value >= hour) THEN
        RETURN false;
    END IF;
    UPDATE mainspring.meta SET value = hour WHERE key = 'partitions' AND value < hour;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM mainspring.make_partition((month + n * interval '1 month')::date) FROM generate_series(0, 2) n;
        PERFORM mainspring.drop_empty_partitions((month - interval '1 month')::date);
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
        RETURN false;
    END;
    RETURN true;
END
$$;

SELECT mainspring.keep_partitions();
