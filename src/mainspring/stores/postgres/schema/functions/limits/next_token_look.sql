-- When rows that wait for a token are looked at again, after a look has woken as many as there were tokens.
CREATE OR REPLACE FUNCTION mainspring.next_token_look(of_key text, level double precision, since bigint, now bigint)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    this_line text := mainspring.next_line(of_key, true, '');
    held double precision;
    look bigint;
BEGIN
    WHILE this_line IS NOT NULL LOOP
        held := mainspring.level_by(this_line, level, since, now);
        look := least(look, mainspring.next_look(
            held - mainspring.tokens_in(held), now, split_part(this_line, '/', 1)::double precision
        ));
        this_line := mainspring.next_line(of_key, true, this_line);
    END LOOP;
    RETURN look;
END
$$;
