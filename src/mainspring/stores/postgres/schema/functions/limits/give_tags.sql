-- Rows of a lane that have a share are claimed in the order of their tags. A row that becomes ready goes to the front
-- of its lane and priority, or behind the last row of its share, at a distance given by its weight. The rows given
-- have no tag yet; those without a share get none. Phases are compared in a way that no index on ready rows matches:
-- finding the rows by their ids is cheaper.
CREATE OR REPLACE FUNCTION mainspring.give_tags(ready uuid[]) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_nestloop = on
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
BEGIN
    WITH newcomer AS MATERIALIZED (
        SELECT l.id, l.lane, l.priority, l.share, 1000000 / greatest(l.weight, 1) AS step
        FROM mainspring.live l WHERE l.id = ANY (ready) AND greatest(l.phase, 0::smallint) = 1 AND l.share IS NOT NULL
            AND l.tag IS NULL
    ), stepped AS (
        SELECT n.*, row_number() OVER its AS nth, sum(n.step) OVER its - first_value(n.step) OVER its AS behind
        FROM newcomer n WINDOW its AS (PARTITION BY n.lane, n.priority, n.share ORDER BY n.id)
    ), placed AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.nth = 1 THEN greatest(coalesce((
            SELECT l.tag FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = s.lane AND l.priority = s.priority
            ORDER BY l.tag LIMIT 1
        ), 0), s.step + (
            SELECT l.tag FROM mainspring.live l
            WHERE l.phase = 1 AND l.tag IS NOT NULL AND l.lane = s.lane AND l.priority = s.priority
                AND l.share = s.share
            ORDER BY l.tag DESC LIMIT 1
        )) END AS first
        FROM stepped s
    ), tagged AS MATERIALIZED (
        SELECT p.id, p.behind + first_value(p.first) OVER (
            PARTITION BY p.lane, p.priority, p.share ORDER BY p.id
        ) AS tag FROM placed p
    )
    UPDATE mainspring.live l SET tag = t.tag FROM tagged t WHERE l.id = t.id;
END
$$;
