-- The key of a limit with its places filled in: {tenant}, {job}, {queue} and {params.name}, as core.rules.limits does.
CREATE OR REPLACE FUNCTION mainspring.filled(key text, tenant text, job text, queue text, params json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    unprintable CONSTANT text := '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f'
                                 '\u3000\ue000-\uf8ff\ufeff]';
    result text := '';
    piece text[];
    value text;
BEGIN
    FOR piece IN SELECT regexp_matches(key, '([^{]*)(?:\{([^{}]*)\})?', 'g') LOOP
        value := CASE piece[2] WHEN 'tenant' THEN tenant WHEN 'job' THEN job WHEN 'queue' THEN queue
                               ELSE params->>regexp_replace(piece[2], '^params\.', '') END;
        value := coalesce(nullif(regexp_replace(left(value, 200), unprintable, '?', 'g'), ''), '-');
        result := result || piece[1] || CASE WHEN piece[2] IS NULL THEN '' ELSE value END;
    END LOOP;
    RETURN left(result, 400);
END
$$;
