-- The number that `fold` gave to an execution; NULL when it has not run yet.
CREATE OR REPLACE FUNCTION mainspring.number_of(wanted_job integer, wanted uuid) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT n.first + array_position(n.ids, wanted) - 1
    FROM mainspring.numbers n
    WHERE n.job_key = wanted_job AND n.span = mainspring.span_of(wanted)
        AND n.low <= wanted AND n.high >= wanted AND wanted = ANY (n.ids)
    LIMIT 1
$$;
