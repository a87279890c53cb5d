"""What docs/deploy/postgres.md says about our tables. (tests/docs/test_blocks.py runs its SQL.)"""

from __future__ import annotations

import psycopg

from tests.servers import postgres


def test_the_page_says_how_the_live_table_is_stored() -> None:
    with psycopg.connect(postgres().migrated_database()) as connection:
        row = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'mainspring.live'::regclass").fetchone()
    assert row is not None
    assert {"fillfactor=60", "autovacuum_vacuum_scale_factor=0.02", "autovacuum_vacuum_threshold=2000"} <= set(row[0])
