"""Any number of processes may open a database that none of them has made yet."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mainspring.model.errors import StoreError
from mainspring.stores.sqlite import schema
from mainspring.stores.sqlite.threads.connect import connect
from tests.support import DEADLINE

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


@pytest.mark.req("OPS-5")
def test_a_migration_waits_until_the_schema_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    connection = sqlite3.connect(path, isolation_level=None, factory=Locked)
    schema.migrate(connection, path, DEADLINE)
    assert connection.execute("SELECT count(*) FROM mainspring_jobs").fetchone() == (0,)
    connection.times = 1
    with pytest.raises(StoreError, match=r"new\.db: another process has held the write lock for too long"):
        schema.migrate(connection, path, 0.0)
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
            schema.migrate(connection, path, DEADLINE)
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
