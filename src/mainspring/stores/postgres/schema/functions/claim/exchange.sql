-- `applied` lists positions, NULL stands for all; `freed` says that rows are ready that this claim did not take.
-- Settle, wake what is parked, promote, then claim, as separate steps of one transaction: the claim sees the keys that
-- the settle freed. A claim goes on where the last one of its connection ended; or starts at the front of the only lane
-- that has ready rows; or takes its rows lane by lane.
-- A claim alone is committed without waiting for the disk: if a crash loses it, the row is ready again, and the next
-- claim has another stamp in its token.
-- First attempts that completed come in `completed`, all other changes in `batch`: settling the former by themselves
-- costs 4 to 16 % less, and nearly all changes are of that kind. `extras` is what few of them have: see apply_extras.
-- Nothing is claimed from the queues in `without`.
CREATE OR REPLACE FUNCTION mainspring.settle_then_claim(
    completed mainspring.completions, batch mainspring.changes, extras json, new_owner text, stamp bigint,
    handlers text[], queues text[], without text[], lease_for bigint, wanted integer, turn integer, only_alone boolean,
    OUT applied text, OUT freed boolean, OUT claimed text, OUT blocked text, OUT taken integer,
    OUT alone_waiting boolean, OUT next_due bigint, OUT now bigint
) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_nestloop = off
    SET jit = off
AS $$
DECLARE
    done integer[];
    fair uuid[];
    promoted uuid[];
    woken uuid[];
    woken_late uuid[];
    look bigint;
    contended boolean;
    onward text;
    already integer := 0;
    first_lane text;
    last_lane text;
BEGIN
    now := mainspring.now_micros();
    IF completed.ids IS NOT NULL THEN
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken
        FROM mainspring.settle_completed(completed, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(completed.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    ELSIF batch.ids IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        SELECT s.applied, s.freed, s.fair, s.woken INTO done, freed, fair, woken FROM mainspring.settle(batch, now) s;
        IF cardinality(done) IS DISTINCT FROM cardinality(batch.ids) THEN
            applied := coalesce(array_to_string(done, ','), '');
        END IF;
    END IF;
    IF extras IS NOT NULL THEN
        PERFORM mainspring.apply_extras(extras, done);
    END IF;
    SELECT (
            SELECT least(s.slot_look, s.token_look) FROM mainspring.limit_state s
            WHERE s.slot_look IS NOT NULL OR s.token_look IS NOT NULL ORDER BY least(s.slot_look, s.token_look) LIMIT 1
        ), (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1)
    INTO look, next_due;
    IF look <= now OR look > now + 5000000 THEN
        woken := woken || mainspring.look(now);
        look := mainspring.first_look();
        next_due := now;
    END IF;
    IF next_due <= now THEN
        SELECT p.upcoming, p.fair INTO next_due, promoted FROM mainspring.promote(now) p;
    END IF;
    IF fair IS NOT NULL OR promoted IS NOT NULL THEN
        PERFORM mainspring.give_tags(fair || promoted);
    END IF;
    IF wanted IS NOT NULL THEN
        alone_waiting := false;
        IF without IS NOT NULL THEN
            queues := ARRAY(
                SELECT DISTINCT split_part(r.lane, '/', 1) FROM unnest(mainspring.ready_lanes(handlers, queues)) r (lane)
                WHERE split_part(r.lane, '/', 1) <> ALL (without)
            );
        END IF;
        IF wanted >= mainspring.backlog() AND NOT only_alone
            AND current_setting('mainspring.claimed_up_to', true) <> ''
        THEN
            SELECT o.claimed, o.taken INTO claimed, already
            FROM mainspring.claim_onward(new_owner, stamp, handlers, queues, now + lease_for, wanted, now) o;
        END IF;
        IF already = 0 OR already < wanted THEN
            SELECT (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane LIMIT 1),
                (SELECT l.lane FROM mainspring.live l WHERE l.phase = 1 ORDER BY l.lane DESC LIMIT 1)
            INTO first_lane, last_lane;
        END IF;
        IF first_lane = last_lane AND already = 0 AND NOT only_alone
            AND split_part(first_lane, '/', 2) = ANY (handlers)
            AND (queues IS NULL OR split_part(first_lane, '/', 1) = ANY (queues))
            AND split_part(first_lane, '/', 3) = '' AND split_part(first_lane, '/', 4) = ''
        THEN
            SELECT c.claimed, c.blocked, c.taken INTO claimed, blocked, taken
            FROM mainspring.claim_lane(first_lane, new_owner, stamp, now + lease_for, wanted, now) c;
        ELSIF first_lane IS NOT NULL THEN
            onward := claimed;
            SELECT c.claimed, c.blocked, already + c.taken, c.alone_waiting, c.woken, c.contended
            INTO claimed, blocked, taken, alone_waiting, woken_late, contended
            FROM mainspring.claim_in_order(
                new_owner, stamp, handlers, queues, lease_for, wanted - already, turn, only_alone, now
            ) c;
            IF onward IS NOT NULL THEN
                claimed := concat_ws(',', onward, claimed);
            END IF;
        END IF;
        taken := coalesce(taken, already);
        IF blocked IS NOT NULL THEN
            next_due := (SELECT l.due FROM mainspring.live l WHERE l.phase = 0 ORDER BY l.due LIMIT 1);
        END IF;
        IF contended IS NOT NULL THEN
            look := mainspring.first_look();
            next_due := CASE WHEN contended THEN least(next_due, now + 5000) ELSE next_due END;
        END IF;
    END IF;
    next_due := least(next_due, look);
    woken := woken || woken_late;
    IF woken IS NOT NULL AND freed IS DISTINCT FROM true THEN
        freed := EXISTS (SELECT FROM mainspring.live l WHERE l.id = ANY (woken) AND greatest(l.phase, 0::smallint) = 1);
    END IF;
END
$$;

-- As the release before calls it.
CREATE OR REPLACE FUNCTION mainspring.exchange(
    completed mainspring.completions, batch mainspring.changes, new_owner text, stamp bigint, handlers text[],
    queues text[], lease_for bigint, wanted integer, turn integer, only_alone boolean,
    OUT applied text, OUT freed boolean, OUT claimed text, OUT blocked text, OUT taken integer,
    OUT alone_waiting boolean, OUT next_due bigint, OUT now bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.applied, s.freed, s.claimed, s.blocked, s.taken, s.alone_waiting, s.next_due, s.now
    INTO applied, freed, claimed, blocked, taken, alone_waiting, next_due, now
    FROM mainspring.settle_then_claim(
        completed, batch, NULL, new_owner, stamp, handlers, queues, NULL, lease_for, wanted, turn, only_alone
    ) s;
END
$$;
