-- What a bucket holds by the numbers of a wait line.
CREATE OR REPLACE FUNCTION mainspring.level_by(line text, level double precision, since bigint, now bigint)
RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT mainspring.refilled(
        level, since, now, split_part(line, '/', 1)::double precision,
        split_part(split_part(line, ' ', 1), '/', 2)::integer
    )
$$;
