-- Indexes of the live table that are mostly empty: many times larger than what its rows need. Left behind by a rebuild
-- that was interrupted: those that are not valid. `written` is how many rows have been written so far. A crash of the
-- server sets its counters of rows to zero; what the last vacuum has counted stays.
SELECT c.relname, NOT i.indisvalid AS left_behind,
    (SELECT s.n_tup_ins + s.n_tup_upd + s.n_tup_del FROM pg_stat_all_tables s WHERE s.relid = i.indrelid) AS written
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'mainspring.live'::regclass AND (
    (NOT i.indisvalid AND c.relname ~ '_cc(new|old)[0-9]*$')
    OR (i.indisvalid AND pg_relation_size(c.oid) > $1::bigint + $2::bigint * (
        SELECT greatest(s.n_live_tup + s.n_dead_tup, t.reltuples::bigint)
        FROM pg_stat_all_tables s JOIN pg_class t ON t.oid = s.relid WHERE s.relid = i.indrelid
    ))
)
ORDER BY i.indisvalid, pg_relation_size(c.oid) DESC
