-- The ids between which those of a month lie.
CREATE OR REPLACE FUNCTION mainspring.month_bounds(month date, OUT low uuid, OUT high uuid) LANGUAGE sql IMMUTABLE AS $$
    SELECT mainspring.id_at((extract(epoch FROM month::timestamp AT TIME ZONE 'UTC') * 1000000)::bigint),
           mainspring.id_at((extract(epoch FROM (month + interval '1 month') AT TIME ZONE 'UTC') * 1000000)::bigint)
$$;
