-- Drops months before this one that have become empty. Returns how many.
CREATE OR REPLACE FUNCTION mainspring.drop_empty_partitions(before date) RETURNS integer LANGUAGE plpgsql AS $$
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
