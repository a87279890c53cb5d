"""The statements by which `inspect` reads the catalogues of PostgreSQL. $1 is a schema; every column is plain text, a
number or a truth value."""

from __future__ import annotations

from typing import Final

_OWN_TABLES = """
    pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1::text
    WHERE c.relkind IN ('r', 'p') AND NOT (c.relispartition AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT')
"""
_OWN_WHOLE_TABLES = _OWN_TABLES + " AND NOT c.relispartition"

_COLUMN = """
    a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
    || CASE WHEN l.collname IS NOT NULL THEN ' COLLATE "' || l.collname || '"' ELSE '' END
    || CASE WHEN a.attidentity <> '' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
    || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
"""
_COLUMN_PARTS = """
    pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_collation l ON l.oid = a.attcollation AND a.attcollation <> t.typcollation
"""

TYPES: Final = """
    SELECT t.typname::text, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
    FROM pg_type t
    JOIN pg_namespace n ON n.oid = t.typnamespace AND n.nspname = $1::text
    JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY t.typname
"""

SEQUENCES: Final = """
    SELECT c.relname::text, format('AS %s START %s INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s%s',
        format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache,
        CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END)
    FROM pg_sequence s
    JOIN pg_class c ON c.oid = s.seqrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1::text
    WHERE NOT EXISTS (SELECT FROM pg_depend p WHERE p.objid = c.oid AND p.deptype = 'i')
"""

TABLES: Final = f"""
    SELECT c.relname::text, coalesce(pg_get_partkeydef(c.oid), ''),
        coalesce((SELECT p.relname::text FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
                  WHERE i.inhrelid = c.oid), ''),
        (SELECT string_agg({_COLUMN}, ', ' ORDER BY a.attnum) FROM {_COLUMN_PARTS}
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    FROM {_OWN_TABLES}
"""

COLUMNS: Final = f"""
    SELECT c.relname::text, a.attname::text,
        format_type(a.atttypid, a.atttypmod)
        || CASE WHEN l.collname IS NOT NULL THEN ' COLLATE "' || l.collname || '"' ELSE '' END,
        coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity <> '', a.attnotnull,
        CASE WHEN a.attstorage <> t.typstorage
            THEN CASE a.attstorage WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' WHEN 'p' THEN 'PLAIN'
                ELSE 'EXTENDED' END
            ELSE '' END,
        {_COLUMN}
    FROM {_COLUMN_PARTS}, {_OWN_WHOLE_TABLES}
        AND a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
"""

OPTIONS: Final = """
    SELECT c.relname::text, split_part(o, '=', 1), split_part(o, '=', 2)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1::text,
        LATERAL (
            SELECT unnest(c.reloptions) AS o
            UNION ALL
            SELECT 'toast.' || unnest(toast.reloptions) FROM pg_class toast WHERE toast.oid = c.reltoastrelid
        ) options
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
"""

CONSTRAINTS: Final = f"""
    SELECT c.relname::text, k.conname::text, pg_get_constraintdef(k.oid)
        || coalesce(' WITH (' || (SELECT array_to_string(x.reloptions, ', ') FROM pg_class x WHERE x.oid = k.conindid)
            || ')', '')
    FROM pg_constraint k, {_OWN_WHOLE_TABLES} AND k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'f', 'x')
"""

INDEXES: Final = f"""
    SELECT c.relname::text, x.relname::text, pg_get_indexdef(i.indexrelid), i.indisvalid
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid, {_OWN_WHOLE_TABLES} AND i.indrelid = c.oid
        AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
"""

FUNCTIONS: Final = """
    SELECT p.proname::text, pg_get_function_identity_arguments(p.oid), coalesce(pg_get_function_result(p.oid), ''),
        pg_get_functiondef(p.oid)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = $1::text
    WHERE p.prokind IN ('f', 'p')
"""

VIEWS: Final = """
    SELECT c.relname::text, pg_get_viewdef(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1::text
    WHERE c.relkind IN ('v', 'm')
    ORDER BY c.oid  -- a view comes after those that it reads
"""

TRIGGERS: Final = f"""
    SELECT c.relname::text, g.tgname::text, pg_get_triggerdef(g.oid)
    FROM pg_trigger g, {_OWN_WHOLE_TABLES} AND g.tgrelid = c.oid AND NOT g.tgisinternal
"""

# --- the server -------------------------------------------------------------------------------------------------------

FACTS: Final = """
    SELECT current_setting('server_version_num')::integer,
        current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
        (SELECT count(*)::integer FROM pg_stat_activity WHERE backend_type = 'client backend'),
        current_setting('server_encoding'),
        pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,
        coalesce((SELECT extract(epoch FROM now() - min(xact_start))::double precision FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_type = 'client backend'
                      AND pid <> pg_backend_pid()), 0),
        current_setting('autovacuum'), current_setting('fsync'), current_setting('full_page_writes')
"""

TIMEOUTS: Final = """
    SELECT name, current_setting(name) FROM pg_settings
    WHERE name IN ('lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
"""

MONTHS: Final = """
    SELECT to_char(month, 'YYYY-MM'), EXISTS (
        SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
        WHERE i.inhparent = h.oid AND p.relname = to_char(month, '"history_"YYYY_MM')
    )
    FROM pg_class h JOIN pg_namespace n ON n.oid = h.relnamespace AND n.nspname = $1::text,
        LATERAL generate_series(0, 1) AS ahead,
        LATERAL (SELECT date_trunc('month', now() AT TIME ZONE 'UTC') + ahead * interval '1 month' AS month) AS months
    WHERE h.relname = 'history'
    ORDER BY 1
"""
