-- What few changes have, for those that were applied. `extras` are [{n, id, labels, key, failure, limits}, ...]: `n` is
-- the position of the change, `labels` are those it adds, `failure` is the note of a failed attempt and `key` that of
-- its entry, `limits` are the new ones of a row that is pending again ("[]": none). Slots under the old limits are free
-- by now.
CREATE OR REPLACE FUNCTION mainspring.apply_extras(extras json, applied integer[]) RETURNS void LANGUAGE plpgsql
    SET enable_nestloop = on
AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        WITH x AS MATERIALIZED (
            SELECT * FROM json_to_recordset(extras) AS x (
                n integer, id uuid, labels json, key text, failure text, limits text
            ) WHERE x.n = ANY (applied)
        ), noted AS (
            INSERT INTO mainspring.entry (kind, scope, key, version, body)
            SELECT 'failure', '', x.key, 1, x.failure FROM x WHERE x.failure IS NOT NULL
            ON CONFLICT DO NOTHING
        ), labelled AS (
            INSERT INTO mainspring.label (label, id)
            SELECT b.label, x.id FROM x CROSS JOIN LATERAL json_array_elements_text(x.labels) b (label)
            ORDER BY b.label, x.id
            ON CONFLICT DO NOTHING
        )
        SELECT x.id, x.limits FROM x WHERE x.limits IS NOT NULL
    LOOP
        UPDATE mainspring.live l SET
            limits = nullif(one.limits, '[]'),
            lane = CASE WHEN l.share IS NULL
                        THEN mainspring.lane_of_kind(l.lane, CASE WHEN one.limits <> '[]' THEN 'limited' ELSE '' END)
                        ELSE l.lane END,
            -- Inside texts quotes are escaped, so only the field itself matches.
            body = regexp_replace(l.body, ',"limits":"([^"\\]|\\.)*"', '')
                || mainspring.field('limits', nullif(one.limits, '[]')),
            line = NULL, place = NULL
        WHERE l.id = one.id;
    END LOOP;
END
$$;
