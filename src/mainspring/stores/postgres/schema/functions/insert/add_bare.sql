-- For who has the whole bodies: releases before this one, and add_single.
CREATE OR REPLACE FUNCTION mainspring.add_bare(rows mainspring.bare, news text) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    RETURN mainspring.add_lines(rows, '', news);
END
$$;
