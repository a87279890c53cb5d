"""The SQL of docs/deploy/postgres.md runs on a database with our tables."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.servers import postgres

PAGE = Path(__file__).parents[3] / "docs" / "deploy" / "postgres.md"
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def url() -> str:
    return postgres().migrated_database()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.splitlines()[0][:40])
def test_a_query_of_the_page_runs(url: str, query: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(query.encode()).description is not None


def test_the_page_says_how_the_live_table_is_stored(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'mainspring.live'::regclass").fetchone()
    assert row is not None
    assert {"fillfactor=60", "autovacuum_vacuum_scale_factor=0.02", "autovacuum_vacuum_threshold=2000"} <= set(row[0])
