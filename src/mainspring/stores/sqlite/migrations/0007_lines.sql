-- Parked rows stand in lines: `line` is the numbers of the limit and the lane, `place` the turn of a share there. All three,
-- with `parked`, stay with a row that was woken until it is claimed or changed. Rows parked before are judged anew.
ALTER TABLE mainspring_live ADD COLUMN line TEXT;
ALTER TABLE mainspring_live ADD COLUMN place INTEGER NOT NULL DEFAULT 0;

UPDATE mainspring_live SET phase = share IS NULL, parked = NULL WHERE phase = 4;
DELETE FROM mainspring_waits;

DROP INDEX mainspring_live_parked;
CREATE INDEX mainspring_live_parked ON mainspring_live (parked, line, priority DESC, place, id) WHERE phase = 4;
CREATE INDEX mainspring_live_places ON mainspring_live (parked, line, share, priority, place)
    WHERE share IS NOT NULL AND phase = 4;
