"""Files the SQLite store cannot use are refused at once, with the path, the reason and the remedy."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainspring.admin import copy as copying
from mainspring.admin import schema
from mainspring.model.errors import InvalidValue, SchemaMismatch, StoreError
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import connected, execution, opened, write_lock_held
from tests.support import new_threads, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def refused(path: Path, words: str, error: type[Exception] = StoreError) -> None:
    threads = set(threading.enumerate())
    store = SqliteStore(path, FakeClock())
    with pytest.raises(error, match=words):
        await store.open()
    await until(lambda: new_threads(threads) == [])
    await store.close()


@pytest.fixture
def letter(path: Path) -> Path:
    path.write_text("these are not the bytes you are looking for\n" * 100)
    return path


@pytest.mark.req("OPS-8")
async def test_a_file_that_is_no_database_is_refused(letter: Path) -> None:
    await refused(letter, r"store\.db: this file is not an SQLite database; give another path")


@pytest.mark.req("OPS-8")
async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    await refused(tmp_path / "none" / "store.db", r"the directory .*none does not exist; create it")


@pytest.mark.req("OPS-8")
async def test_a_directory_is_refused(tmp_path: Path) -> None:
    await refused(tmp_path, "this is a directory; give the path of a file")


@pytest.mark.req("OPS-8")
async def test_a_file_that_cannot_be_written_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        async with opened(path):
            pass
        with read_only(path):
            await refused(path, r"store\.db: .*permissions")


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """The superuser may write everywhere: as root, it is tried as an ordinary user."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.parent.chmod(0o700)


async def test_a_known_database_can_be_opened_while_somebody_writes(path: Path) -> None:
    async with opened(path):
        pass
    with write_lock_held(path):
        async with opened(path, busy_timeout=0.05) as store:
            assert await store.jobs() == []


async def test_a_newer_schema_is_refused_with_both_versions(path: Path) -> None:
    async with opened(path):
        pass
    with connected(path) as connection, connection:
        connection.execute("UPDATE mainspring_meta SET value = 999 WHERE key = 'schema'")
    await refused(path, r"schema is at 999, this release needs \d+; update", SchemaMismatch)


@pytest.mark.req("OPS-8")
async def test_a_new_file_belongs_to_its_owner_alone_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        (tmp_path / "shared.db").touch(0o640)
        (tmp_path / "linked.db").symlink_to(tmp_path / "target.db")
        for name, mode in (("new.db", 0o600), ("shared.db", 0o640), ("linked.db", 0o600)):
            async with opened(tmp_path / name) as store:
                await store.add([execution(1)])
                real = (tmp_path / name).resolve()
                files = [real, real.with_name(f"{real.name}-wal"), real.with_name(f"{real.name}-shm")]
                assert [file.stat().st_mode & 0o777 for file in files] == [mode] * 3
        source, target = (f"sqlite:///{tmp_path / name}" for name in ("migrated.db", "copied.db"))
        await schema.migrate(source)
        await copying.copy(source, target, lambda *_: None)
        assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("migrated.db", "copied.db")} == {0o600}
    finally:
        os.umask(old)


@pytest.mark.parametrize("path", [":memory:", "", "file::memory:?cache=shared"])
def test_a_database_in_memory_is_refused(path: str) -> None:
    with pytest.raises(InvalidValue, match="memory://"):
        SqliteStore(path, FakeClock())


def test_an_unknown_level_of_safety_is_refused(path: Path) -> None:
    with pytest.raises(InvalidValue, match="synchronous: 'SOMETIMES' is not valid; allowed: one of OFF, NORMAL, FULL"):
        SqliteStore(path, FakeClock(), synchronous="SOMETIMES")


async def test_an_application_may_keep_its_own_tables_in_the_file(path: Path) -> None:
    with connected(path) as connection, connection:
        connection.execute("CREATE TABLE live (id)")
        connection.execute("PRAGMA user_version = 7")
    async with opened(path) as store:
        await store.add([execution(1)])
    with connected(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type <> 'trigger'")}
    assert all(name.startswith(("mainspring_", "sqlite_autoindex_mainspring_")) for name in names - {"live"})
