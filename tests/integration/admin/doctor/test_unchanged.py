"""The doctor changes nothing: neither in a database that is well, nor in one that is damaged or absent."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.core.doctor.examination import Report
from tests.integration.admin.doctor.clinic import Clinic, checks_of
from tests.mongo_server import mongo
from tests.servers import postgres


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.chdir(tmp_path)
    return Clinic(tmp_path, monkeypatch)


async def used(url: str) -> None:
    """A database with a job and an execution."""
    app = declaring(url)
    await app.enqueue("tidy")
    await app.close()


def declaring(url: str, minutes: int = 5) -> Mainspring:
    app = Mainspring(url)

    @app.job("tidy", trigger=every(minutes=minutes))
    async def tidy(ctx: Any) -> None: ...

    @app.job(f"new-{minutes}")
    async def new(ctx: Any) -> None: ...

    return app


async def unchanged(clinic: Clinic, url: str, content: Callable[[], Any]) -> Report:
    """The report of an application with another declaration, which a start would store."""
    before = content()
    assert before
    report = await clinic.examine(url, declaring(url, minutes=7))
    assert content() == before
    return report


@pytest.mark.req("DEV-2")
async def test_a_file_stays_as_it_is(clinic: Clinic) -> None:
    def content() -> list[str]:
        with closing(sqlite3.connect(clinic.file)) as connection:
            mode = connection.execute("PRAGMA journal_mode").fetchone()
            version = connection.execute("PRAGMA user_version").fetchone()
            return [*connection.iterdump(), *map(str, mode + version)]

    await used(clinic.url)
    assert "job_orphaned" in checks_of(await unchanged(clinic, clinic.url, content))
    for damage, finding in (
        ("DROP INDEX mainspring_jobs_due", "schema_damaged"),
        ("DELETE FROM mainspring_meta WHERE key = 'expanded'", "schema_older"),
        ("PRAGMA journal_mode = DELETE", "sqlite_journal_mode"),
    ):
        with closing(sqlite3.connect(clinic.file, isolation_level=None)) as connection:
            connection.execute(damage)
        assert finding in checks_of(await unchanged(clinic, clinic.url, content))
    absent = clinic.folder / "absent.db"
    await clinic.examine(f"sqlite:///{absent}", declaring(clinic.url))
    assert not absent.exists()


@pytest.mark.req("DEV-2")
async def test_a_server_stays_as_it_is(clinic: Clinic) -> None:
    server = postgres()
    url = server.migrated_database()
    name = url.rpartition("/")[2]

    def content() -> list[Any]:
        tables = server.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname !~ '^(pg_|sql_)'", name)
        rows = [server.execute(f"SELECT t::text FROM mainspring.{table} t", name) for (table,) in sorted(tables)]
        catalogue = "SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_proc UNION ALL SELECT oid FROM pg_namespace"
        return [*rows, sorted(server.execute(catalogue, name))]

    await used(url)
    assert checks_of(await unchanged(clinic, url, content)) >= {"postgres_unsafe"}
    server.execute("DROP INDEX mainspring.job_due", name)
    assert "schema_damaged" in checks_of(await unchanged(clinic, url, content))
    empty = server.new_database()
    assert "not_mainspring" in checks_of(await clinic.examine(empty))
    found = server.execute("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'mainspring%'", empty.rpartition("/")[2])
    assert found == []


@pytest.mark.req("DEV-2")
async def test_collections_stay_as_they_are(clinic: Clinic) -> None:
    url = mongo("standalone").new_database()
    with mongo("standalone").client() as client:
        database = client.get_database(url.rpartition("/")[2])

        def content() -> list[Any]:
            names = sorted(database.list_collection_names())
            return [(each, list(database[each].find()), database[each].index_information()) for each in names]

        await used(url)
        await unchanged(clinic, url, content)
        database["mainspring.jobs"].drop_index("due")
        assert "schema_damaged" in checks_of(await unchanged(clinic, url, content))
        empty = mongo("standalone").new_database()
        assert "not_mainspring" in checks_of(await clinic.examine(empty))
        assert client.get_database(empty.rpartition("/")[2]).list_collection_names() == []
