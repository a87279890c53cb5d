-- What the bucket holds now: see model.limits.refilled. A bucket that was never used is full.
CREATE OR REPLACE FUNCTION mainspring.refilled(
    level double precision, since bigint, now bigint, rate double precision, burst integer
) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(least(burst, level + greatest(0, now - since) * rate / 1000000), burst)
$$;
