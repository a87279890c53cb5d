"""A backup is taken while a worker runs, the database destroyed, the backup restored: see docs/deploy/backups.md."""

from __future__ import annotations

import asyncio
import atexit
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import psycopg
import pymongo
import pytest
from click.testing import CliRunner

from mainspring import JobContext, Mainspring, every
from mainspring.cli.root import root
from tests.mongo_server import mongo
from tests.servers import new_postgres, own_folder, postgres
from tests.support import NEVER, ended, until, until_blocking

DONE, HELD = 40, 10


class SqliteFile:
    """`backup` makes the copy: the online backup that `sqlite3 jobs.db .backup` runs too, or VACUUM INTO."""

    def __init__(self, folder: Path, backup: Callable[[sqlite3.Connection, Path], None]) -> None:
        self._file, self._copy, self._backup = folder / "jobs.db", folder / "copy.db", backup
        self.url = f"sqlite:///{self._file}"

    def back_up(self) -> None:
        with closing(sqlite3.connect(self._file)) as connection:
            self._backup(connection, self._copy)

    def destroy(self) -> None:
        for end in ("", "-wal", "-shm"):
            Path(f"{self._file}{end}").unlink(missing_ok=True)

    def restore(self) -> None:
        self._copy.rename(self._file)


def _online_backup(connection: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)


def _vacuum_into(connection: sqlite3.Connection, target: Path) -> None:
    connection.execute("VACUUM INTO ?", (str(target),))


class PostgresDump:
    def __init__(self) -> None:
        self._server = postgres()
        self.url = self._server.migrated_database()
        self._name = self.url.rpartition("/")[2]
        self._dump = self._server.folder / f"{self._name}.dump"

    def back_up(self) -> None:
        self._server.client("pg_dump", "--format=custom", "--schema=mainspring", f"--file={self._dump}", self.url)

    def destroy(self) -> None:
        self._server.execute(f"DROP DATABASE {self._name} WITH (FORCE)")

    def restore(self) -> None:
        self._server.execute(f"CREATE DATABASE {self._name}")
        self._server.client("pg_restore", "--exit-on-error", f"--dbname={self.url}", self._dump)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("ANALYZE")


class PostgresMoment:
    """A base backup and the archived write-ahead log, restored up to a moment."""

    def __init__(self) -> None:
        folder = own_folder("mainspring-wal-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._server = new_postgres(archive_mode="on", archive_command=f"cp %p {folder}/%f")
        self._server.start()
        self.url = self._server.migrated_database()
        self._base = self._server.folder / "base"
        self._recovery = {"restore_command": f"cp {folder}/%f %p", "recovery_target_action": "promote"}

    def back_up(self) -> None:
        options = ["--wal-method=stream", "--checkpoint=fast", f"--pgdata={self._base}"]
        self._server.client("pg_basebackup", *options, f"--dbname={self._server.url()}")
        [[self._recovery["recovery_target_time"]]] = self._server.execute("SELECT clock_timestamp()::text")

    def destroy(self) -> None:
        [[segment]] = self._server.execute("SELECT pg_walfile_name(pg_switch_wal())")
        archived = "SELECT coalesce(max(last_archived_wal), '') FROM pg_stat_archiver"
        until_blocking(lambda: self._server.execute(archived)[0][0] >= segment, "its log is archived")
        self._server.kill()
        shutil.rmtree(self._server.data)

    def restore(self) -> None:
        self._base.rename(self._server.data)
        with Path(self._server.data, "postgresql.auto.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in self._recovery.items())
        Path(self._server.data, "recovery.signal").touch()
        self._server.start()
        recovering = "SELECT pg_is_in_recovery()"
        until_blocking(lambda: self._server.execute(recovering) == [(False,)], "it is restored up to the moment")


class MongoCopy:
    """With Mainspring's own copy, which reads any store and writes any other."""

    def __init__(self, folder: Path) -> None:
        self.url = mongo("replica_set").new_database()
        self._file = f"sqlite:///{folder / 'copy.db'}"

    def back_up(self) -> None:
        _copy(self.url, self._file, "--force")

    def destroy(self) -> None:
        with pymongo.MongoClient[dict[str, object]](self.url) as client:
            client.drop_database(client.get_default_database().name)

    def restore(self) -> None:
        _copy(self._file, self.url)


Database: TypeAlias = SqliteFile | PostgresDump | PostgresMoment | MongoCopy


def _copy(source: str, target: str, *options: str) -> None:
    answer = CliRunner().invoke(root, ["db", "copy", source, target, *options])
    assert answer.exit_code in (0, 1 if options else 0), answer.output  # with --force, what changed meanwhile differs


@pytest.fixture(params=["sqlite-backup", "sqlite-vacuum", "postgres-dump", "postgres-moment", "mongo"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    match request.param:
        case "sqlite-backup":
            return SqliteFile(tmp_path, _online_backup)
        case "sqlite-vacuum":
            return SqliteFile(tmp_path, _vacuum_into)
        case "postgres-dump":
            return PostgresDump()
        case "postgres-moment":
            return PostgresMoment()
        case _:
            return MongoCopy(tmp_path)


class Node:
    """One worker with its scheduler; `ran` counts what its handlers did, `ticks` when they were due."""

    def __init__(self, url: str, queues: tuple[str, ...]) -> None:
        self.app = Mainspring(url, queues=queues, poll_interval=NEVER, stop_timeout=5)
        self.ran: Counter[int] = Counter()
        self.ticks: list[str] = []
        self.app.job("work")(self._work)
        self.app.job("tick", trigger=every(seconds=1), missed="skip")(self._tick)

    async def _work(self, ctx: JobContext, number: int) -> None:
        self.ran[number] += 1

    async def _tick(self, ctx: JobContext) -> None:
        self.ticks.append(ctx.execution_id)


@pytest.mark.req("REL-1")
async def test_a_backup_of_a_running_database_is_restored(database: Database) -> None:
    before = Node(database.url, ("default",))
    async with before.app as app:
        done = await app.enqueue_many([("work", {"number": n}) for n in range(DONE)])
        for execution in done:
            await ended(app, execution)
        for number in range(DONE, DONE + HELD):
            await app.enqueue("work", {"number": number}, queue="held")
        await app.enqueue("work", {"number": DONE}, queue="held", unique="once")
        await until(lambda: len(before.ticks) >= 1, "ticks come")
        await asyncio.to_thread(database.back_up)
        lost = await ended(app, await app.enqueue("work", {"number": -1}))
        ticked = len(before.ticks)
        await until(lambda: len(before.ticks) > ticked, "ticks come after the backup, which does not know them")
    await asyncio.to_thread(database.destroy)
    await asyncio.to_thread(database.restore)

    report = await asyncio.to_thread(CliRunner().invoke, root, ["doctor", "--database-url", database.url, "-o", "json"])
    assert [found for found in json.loads(report.output)["findings"] if found["area"] == "schema"] == []
    after = Node(database.url, ("default", "held"))
    assert await after.app.enqueue("work", {"number": 0}, unique="once") is None, "unique keys came back"
    async with after.app as app:
        await until(lambda: sum(after.ran.values()) >= HELD + 1, "what waited runs")
        await until(lambda: len(after.ticks) >= 2, "ticks continue")
        assert all([(await app.get(execution.id)).state == "completed" for execution in done if execution])
        assert not [one for one in await app.executions(job="work", limit=100) if one.id == lost.id]
    assert after.ran == Counter(range(DONE, DONE + HELD)) + Counter([DONE]), "each once, and nothing that had completed"
