"""The schema of a file: created in an empty one, left alone when current, refused when newer, brought up to date by
numbered versions, whatever number of processes open the file at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.admin import schema
from mainspring.app.adapters import SystemClock
from mainspring.model.errors import ConfigurationError, SchemaMismatch, StoreError
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from mainspring.model.store.schema import SchemaAt, SchemaSteps
from mainspring.stores.sqlite import SqliteStore, migrate
from mainspring.stores.sqlite.migrate import STEPS
from mainspring.stores.sqlite.statements import versions
from mainspring.stores.sqlite.threads.connect import connect
from tests.integration.stores.sqlite_support import opened
from tests.support import DEADLINE

NEWEST = STEPS.newest
UP_TO_DATE = SchemaAt(STEPS.base, NEWEST)
OPENERS, FILES = 4, 100
ROOT = Path(__file__).parents[4]

OPENING = """
import asyncio, sys
from pathlib import Path
from tests.integration.stores.sqlite_support import opened

async def main(paths):
    for path in paths:
        async with opened(Path(path), synchronous="OFF") as store:
            assert await store.jobs() == []

print("ready", flush=True)
sys.stdin.readline()  # all begin at once
asyncio.run(main(sys.argv[1:]))
"""


class Locked(sqlite3.Connection):
    """One that finds the file locked so many times."""

    times = 3

    def execute(self, *args: Any) -> sqlite3.Cursor:
        if self.times:
            self.times -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(*args)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        yield connection


@pytest.mark.req("OPS-5")
def test_an_empty_file_gets_the_schema(file: sqlite3.Connection) -> None:
    assert migrate.schema_at(file) == SchemaAt()
    migrate.migrate(file, "jobs.db", DEADLINE)
    assert migrate.schema_at(file) == UP_TO_DATE
    assert file.execute("SELECT count(*) FROM mainspring_view_jobs").fetchone() == (0,)
    assert not file.in_transaction


@pytest.mark.req("OPS-5")
def test_a_current_file_is_left_alone_and_needs_no_write_lock(file: sqlite3.Connection, tmp_path: Path) -> None:
    migrate.migrate(file, "jobs.db", DEADLINE)
    before = file.execute("PRAGMA data_version").fetchone(), file.total_changes
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        migrate.migrate(file, "jobs.db", 0.0)
        other.execute("ROLLBACK")
    assert (file.execute("PRAGMA data_version").fetchone(), file.total_changes) == before


@pytest.mark.req("OPS-5")
def test_a_newer_file_is_refused_and_left_alone(file: sqlite3.Connection) -> None:
    migrate.migrate(file, "jobs.db", DEADLINE)
    file.execute("UPDATE mainspring_meta SET value = ? WHERE key = 'schema'", (NEWEST + 1,))
    with pytest.raises(SchemaMismatch, match=f"schema is at {NEWEST + 1}, this release needs {NEWEST}; update"):
        migrate.migrate(file, "jobs.db", DEADLINE)
    assert migrate.schema_at(file) == SchemaAt(NEWEST + 1, NEWEST + 1)
    assert not file.in_transaction


@pytest.mark.req("OPS-5")
def test_a_later_version_is_applied_to_an_older_file(file: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.migrate(file, "jobs.db", DEADLINE)
    later = [*versions(), (NEWEST + 1, "ALTER TABLE mainspring_jobs ADD COLUMN colour TEXT;")]
    monkeypatch.setattr(migrate, "versions", lambda: later)
    monkeypatch.setattr(migrate, "STEPS", replace(STEPS, newest=NEWEST + 1))
    migrate.migrate(file, "jobs.db", DEADLINE)
    assert migrate.schema_at(file) == SchemaAt(STEPS.base, NEWEST + 1)
    assert file.execute("SELECT colour FROM mainspring_jobs").fetchall() == []


@pytest.mark.req("UPG-1")
async def test_a_contracting_step_waits_for_the_release_before_and_shuts_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = tmp_path / "jobs.db", f"sqlite:///{tmp_path / 'jobs.db'}"
    store = SqliteStore(path, SystemClock())
    await store.open()
    before = WorkerInfo(id="w", host="here", pid=1, version="0.2.0", lease=3600)
    store.heartbeat(HeartbeatRequest(worker=before, leases=(), lease=30))
    await store.close()
    monkeypatch.setattr(migrate, "STEPS", SchemaSteps(base=2, newest=5, oldest=4, contracts={5: "0.3.0"}))
    expand, contract = "CREATE TABLE mainspring_new (n INTEGER);", "DROP TABLE mainspring_new;"
    monkeypatch.setattr(migrate, "versions", lambda: [*versions(), (4, expand), (5, contract)])
    found = await schema.migrate(url)
    assert (found.required, found.expanded, found.pending, found.contracts) == (2, 4, [], [5])
    assert found.running == {"0.2.0": 1}
    with pytest.raises(ConfigurationError, match=r"worker w on here runs Mainspring 0\.2\.0, and step 5 takes away"):
        await schema.migrate(url, contract=True)
    async with opened(path, auto_migrate=False) as store:  # the new release works on both sides of the step
        await store.remove_worker("w")
    found = await schema.migrate(url, contract=True)
    assert (found.required, found.expanded, found.pending, found.contracts) == (5, 5, [], [])
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_new'").fetchall() == []
    async with opened(path, auto_migrate=False):
        pass
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match=f"is at 5, this release needs {NEWEST}"):
        async with opened(path):
            pass


@pytest.mark.req("OPS-5", "EXE-11")
def test_log_lines_of_version_1_are_kept_without_a_logger(
    file: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "versions", lambda: versions()[:1])
    monkeypatch.setattr(migrate, "STEPS", replace(STEPS, newest=1))
    migrate.migrate(file, "jobs.db", DEADLINE)
    old = "INSERT INTO mainspring_logs (execution_id, seq, at, level, message) VALUES ('e', ?, 5, 'INFO', 'hello')"
    file.execute(old, (1,))
    monkeypatch.undo()
    migrate.migrate(file, "jobs.db", DEADLINE)
    file.execute(old, (2,))  # by a process of the release before, which still runs
    assert file.execute("SELECT seq, message, logger FROM mainspring_logs").fetchall() == [
        (1, "hello", ""),
        (2, "hello", ""),
    ]


@pytest.mark.req("OPS-4", "OPS-5")
def test_the_printed_sql_leaves_nothing_to_migrate(file: sqlite3.Connection) -> None:
    file.executescript(migrate.script())
    assert migrate.schema_at(file) == UP_TO_DATE
    migrate.migrate(file, "jobs.db", DEADLINE)


@pytest.mark.req("OPS-5")
def test_a_version_that_fails_leaves_nothing_behind(file: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.migrate(file, "jobs.db", DEADLINE)
    broken = "CREATE TABLE mainspring_half (id TEXT);\nINSERT INTO mainspring_missing VALUES (1);"
    monkeypatch.setattr(migrate, "versions", lambda: [*versions(), (NEWEST + 1, broken)])
    monkeypatch.setattr(migrate, "STEPS", replace(STEPS, newest=NEWEST + 1))
    with pytest.raises(StoreError, match="no such table: mainspring_missing"):
        migrate.migrate(file, "jobs.db", DEADLINE)
    assert migrate.schema_at(file) == UP_TO_DATE
    assert file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_half'").fetchone() is None


@pytest.mark.req("OPS-5")
def test_a_migration_waits_until_the_schema_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    connection = sqlite3.connect(path, isolation_level=None, factory=Locked)
    migrate.migrate(connection, path, DEADLINE)
    assert connection.execute("SELECT count(*) FROM mainspring_jobs").fetchone() == (0,)
    connection.times = 1
    with pytest.raises(StoreError, match=r"new\.db: another process has held the write lock for too long"):
        migrate.migrate(connection, path, 0.0)
    connection.close()


@pytest.mark.req("OPS-5")
def test_many_threads_make_one_file_at_once(tmp_path: Path) -> None:
    """Files are many, because the instant at which one is in another's way is short."""
    for number in range(FILES):
        path, gate, failed = str(tmp_path / f"{number}.db"), threading.Barrier(OPENERS), list[Exception]()
        threads = [threading.Thread(target=make, args=(path, gate, failed)) for _ in range(OPENERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []


def make(path: str, gate: threading.Barrier, failed: list[Exception]) -> None:
    gate.wait(DEADLINE)
    try:
        connection = connect(path, "OFF", DEADLINE)
        try:
            migrate.migrate(connection, path, DEADLINE)
        finally:
            connection.close()
    except Exception as error:
        failed.append(error)


@pytest.mark.req("OPS-5")
def test_many_processes_make_one_file_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(FILES // 5)]
    command = [sys.executable, "-c", OPENING, *map(str, paths)]
    ends: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, text=True, cwd=ROOT, **ends) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=DEADLINE * 2) for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, told
