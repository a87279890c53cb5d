-- Once an hour, by the first process that calls it: creates the partitions of this month and the next two, and drops
-- empty months of the past. It never waits: what is locked now is tried again in an hour. A role that may not create
-- tables leaves it to `mainspring db migrate`.
CREATE OR REPLACE FUNCTION mainspring.keep_partitions() RETURNS boolean LANGUAGE plpgsql
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
