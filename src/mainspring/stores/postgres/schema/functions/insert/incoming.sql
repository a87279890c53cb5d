-- Rows from JSON objects with the fields of the type; what is left out is NULL.
CREATE OR REPLACE FUNCTION mainspring.incoming(rows json) RETURNS mainspring.incoming[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT r FROM json_populate_recordset(NULL::mainspring.incoming, rows) r);
END
$$;
