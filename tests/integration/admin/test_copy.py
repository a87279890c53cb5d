"""`mainspring db copy`: everything arrives, to the last field, whatever happens on the way.

`make copy-check ROWS=100000` moves that many executions round all stores; `make test` two thousand.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mainspring import ConfigurationError, Mainspring
from mainspring.admin import copy
from mainspring.cli.root import run_command
from mainspring.core import copy_store
from mainspring.core.copy_store import CopyRefused, dump
from mainspring.core.ports import Store
from mainspring.model.store.copy_records import RecordKind
from mainspring.model.store.messages import ExecutionQuery, JobWrite
from tests.integration.admin.copy_support import Filler
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import until

ROWS = int(os.environ.get("COPY_ROWS", "2000"))
SMALL = 300


def silent(step: str, kind: RecordKind, count: int, far: float | None) -> None:
    """Nobody watches."""


def sqlite_url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


def new_database(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        return sqlite_url(folder, "new")
    return (postgres() if kind == "postgres" else mongo("replica_set")).new_database()


async def filled(url: str, rows: int) -> str:
    async with copy.opened(url) as store:
        await Filler(store, time.time_ns() // 1000).fill(rows)
    return url


async def lines_of(url: str) -> list[bytes]:
    async with copy.opened(url) as store:
        return [line async for line in dump(store)]


async def counts_of(url: str) -> dict[str, Any]:
    """What the stores count themselves, without looking at every row."""
    async with copy.opened(url) as store:
        return {
            "live": await store.live_counts(),
            "ended": {id: (stats.total, stats.last_id) for id, stats in (await store.stats()).items()},
            "found": await store.count(ExecutionQuery(), 10**6),
            "of a job": await store.count(ExecutionQuery(job="job-3"), 10**6),
        }


@pytest.mark.timeout(1800)
async def test_a_journey_round_the_stores_changes_nothing(tmp_path: Path) -> None:
    stations = [postgres().new_database(), mongo("replica_set").new_database(), sqlite_url(tmp_path, "back")]
    source = await filled(sqlite_url(tmp_path, "home"), ROWS)
    before, counted = await lines_of(source), await counts_of(source)
    assert len(before) > ROWS * 0.9
    for target in stations:
        began = time.monotonic()
        moved = await copy.copy(source, target, silent)
        assert moved.equal, [kind.differences for kind in moved.compared]
        assert sum(moved.copied.values()) == len(before)
        print(f"{len(before)} records into {target.partition(':')[0]} in {time.monotonic() - began:.1f} s")
        assert await lines_of(target) == before
        assert await counts_of(target) == counted
        source = target


class Interrupted(Exception):
    pass


class StopsAfter:
    """Progress that interrupts the copy after so many pages; None: never."""

    def __init__(self, pages: int | None) -> None:
        self._left = pages

    def __call__(self, step: str, kind: RecordKind, count: int, far: float | None) -> None:
        if step != "copying" or self._left is None:
            return
        if self._left == 0:
            raise Interrupted
        self._left -= 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo"])
async def test_what_a_store_has_grown_itself_arrives_in_every_other(kind: str, tmp_path: Path) -> None:
    """Numbers that a store has not given yet are given on arrival, or later."""
    source = await filled(new_database(kind, tmp_path), SMALL)
    for other in {"sqlite", "postgres", "mongo"} - {kind}:
        moved = await copy.copy(source, new_database(other, tmp_path), silent)
        assert moved.equal, [found.differences for found in moved.compared]


@pytest.mark.parametrize("into", ["sqlite", "postgres", "mongo"])
async def test_an_interrupted_copy_goes_on_where_it_stopped(
    into: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_store, "PAGE", 40)
    source = await filled(sqlite_url(tmp_path, "home"), SMALL)
    target = new_database(into, tmp_path)
    before = await lines_of(source)
    copied = []
    for most in (2, 3, 5, None):
        stop = StopsAfter(most)
        try:
            moved = await copy.copy(source, target, stop)
        except Interrupted:
            copied.append(len(await lines_of(target)))
            continue
        assert moved.equal
        assert 0 < sum(moved.copied.values()) < len(before)
    assert copied == sorted(copied)
    assert await lines_of(target) == before
    again = await copy.copy(source, target, silent)
    assert (again.equal, sum(again.copied.values())) == (True, 0)


async def test_a_copy_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    source, target = await filled(sqlite_url(tmp_path, "home"), ROWS), sqlite_url(tmp_path, "new")
    command = [sys.executable, "-m", "mainspring", "db", "copy", source, target]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: process.poll() is not None or _some_arrived(tmp_path / "new.db"), "some have arrived")
    finally:
        process.kill()
        process.wait()
    async with copy.opened(target) as store:
        await store.lock_release(copy.LOCK, None)  # as time would
    moved = await copy.copy(source, target, silent)
    assert moved.equal
    assert await lines_of(target) == await lines_of(source)


def _some_arrived(path: Path) -> bool:
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as connection:
        try:
            return bool(connection.execute("SELECT 1 FROM mainspring_executions LIMIT 1").fetchone())
        except sqlite3.OperationalError:  # no tables yet, or busy
            return False


async def test_the_application_goes_on_in_the_new_database(tmp_path: Path) -> None:
    """Numbers continue, what was pending runs, what was paused stays so, what ran is run again when its lease ends."""
    source, target = sqlite_url(tmp_path, "home"), postgres().new_database()
    old = working(source)
    done = await old.enqueue("work", {"n": 1})
    waiting = await old.enqueue("later", {"n": 2})
    assert done is not None
    assert waiting is not None
    await old.start(queues=["default"])
    await old.wait(done, 20)
    await old.pause("nightly", by="ada", note="moving")
    await old.close()
    await copy.copy(source, target, silent)
    new = working(target)
    await new.start()
    ended = await new.wait(waiting, 20)
    assert (ended.state, ended.result) == ("completed", 2)
    later = await new.wait(await new.enqueue("work", {"n": 3}), 20)  # type: ignore[arg-type]
    await until(lambda: _number(new, later.id, 2), "numbers continue")
    assert (await new.get(done.id)).number == 1
    view = await new.job_view("nightly")
    assert (view.state, view.paused_by) == ("paused", "ada")
    assert (await new.job_view("work")).stats.completed == 2
    await new.close()


async def _number(app: Mainspring, id: str, wanted: int) -> bool:
    return (await app.get(id)).number == wanted


def working(url: str) -> Mainspring:
    app = Mainspring(url, stop_timeout=5)
    app.job("work")(_work)
    app.job("later", queue="other")(_work)
    app.job("nightly", cron="0 3 * * *")(_nothing)
    return app


async def _work(n: int) -> int:
    return n


async def _nothing() -> None: ...


# --- refusing -----------------------------------------------------------------------------------------------------


async def test_other_data_in_the_target_is_never_touched(tmp_path: Path) -> None:
    source, target = await filled(sqlite_url(tmp_path, "home"), 50), await filled(sqlite_url(tmp_path, "new"), 50)
    before = await lines_of(target)
    with pytest.raises(CopyRefused, match=r"the target holds other data \(execution .* copy into an empty one"):
        await copy.copy(source, target, silent)
    assert await lines_of(target) == before


async def test_a_job_that_differs_is_other_data(tmp_path: Path) -> None:
    source, target = sqlite_url(tmp_path, "home"), sqlite_url(tmp_path, "new")
    for url in (source, target):
        app = working(url)
        await app.open()
        await app.close()
    with pytest.raises(CopyRefused, match=r"job later differs in id"):
        await copy.copy(source, target, silent)


async def test_a_database_is_not_copied_onto_itself(tmp_path: Path) -> None:
    source = await filled(sqlite_url(tmp_path, "home"), 10)
    (tmp_path / "link.db").symlink_to(tmp_path / "home.db")
    with pytest.raises(CopyRefused, match="source and target are the same database"):
        await copy.copy(source, sqlite_url(tmp_path, "link"), silent)
    url = await filled(postgres().new_database(), 10)
    with pytest.raises(CopyRefused, match="source and target are the same database"):
        await copy.copy(url, url.replace("127.0.0.1", "localhost"), silent)


async def test_nothing_is_copied_while_processes_are_at_work(tmp_path: Path) -> None:
    source, target = sqlite_url(tmp_path, "home"), sqlite_url(tmp_path, "new")
    app = working(source)
    async with app:
        with pytest.raises(CopyRefused, match=r"processes are at work in the source database \(.*:\d+\); stop them"):
            await copy.copy(source, target, silent)
        moved = await copy.copy(source, target, silent, force=True)
        assert moved.equal
        with pytest.raises(CopyRefused, match="processes are at work in the target database"):
            await copy.copy(target, source, silent, force=True)


async def test_a_misspelt_address_is_no_empty_database(tmp_path: Path) -> None:
    there = await filled(sqlite_url(tmp_path, "home"), 10)
    missing = sqlite_url(tmp_path, "hmoe")
    for work in (
        copy.copy(missing, there, silent),
        copy.verify(there, missing, silent),
        copy.copy("memory://", there, silent),
    ):
        with pytest.raises(ConfigurationError, match="there is no"):
            await work
    assert not (tmp_path / "hmoe.db").exists()


async def test_two_copies_into_one_database_exclude_each_other(tmp_path: Path) -> None:
    source, target = await filled(sqlite_url(tmp_path, "home"), 50), sqlite_url(tmp_path, "new")
    both = (copy.copy(source, target, silent), copy.copy(source, target, silent))
    results = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(result, copy.Moved) for result in results) >= 1
    assert await lines_of(target) == await lines_of(source)


# --- comparing ----------------------------------------------------------------------------------------------------


async def test_verifying_finds_what_differs_and_changes_nothing(tmp_path: Path) -> None:
    source, target = await filled(sqlite_url(tmp_path, "home"), SMALL), postgres().new_database()
    await copy.copy(source, target, silent)
    assert all(kind.equal for kind in await copy.verify(source, target, silent))
    async with copy.opened(target) as store:
        [todo, *_] = await store.todo(1)
        await store.todo_done([todo.id])
        await _pause(store)
    found = {kind.kind: kind for kind in await copy.verify(source, target, silent)}
    assert [kind for kind in found if not found[kind].equal] == ["executions", "jobs"]
    assert any("job job-1 differs in version, paused" in words for words in found["jobs"].differences)
    assert found["executions"].differences[0].startswith(f"execution {todo.id} ")


async def _pause(store: Store) -> None:
    [job] = await store.jobs(["job-1"])
    await store.write_jobs([JobWrite(job=job.with_changes(paused=1), seen_version=job.version)])


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_copies_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = asyncio.run(filled(sqlite_url(tmp_path, "home"), SMALL))
    target = sqlite_url(tmp_path, "new")
    assert run_command(["db", "copy", source, target, "-o", "json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert answer["equal"] is True
    assert {kind["kind"]: kind["source"] for kind in answer["compared"]} == answer["copied"]
    assert answer["copied"]["executions"] > SMALL * 0.9
    assert "executions were running: they keep their leases" in said.err
    assert run_command(["db", "copy", source, target, "--verify"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["records", *answer["copied"]]
    assert "NO" not in said.out


def test_a_terminal_sees_a_bar(tmp_path: Path) -> None:
    source = asyncio.run(filled(sqlite_url(tmp_path, "home"), ROWS))
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "mainspring", "db", "copy", source, sqlite_url(tmp_path, "new")]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    with suppress(OSError):  # how Linux says that the other side has gone
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait() == 0
    assert "━" in said.decode()
    assert re.search(rb"(copying|verifying) \w+ [0-9,]+", said)


def test_the_command_refuses_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = asyncio.run(filled(sqlite_url(tmp_path, "home"), 50))
    other = asyncio.run(filled(sqlite_url(tmp_path, "new"), 50))
    assert run_command(["db", "copy", source, other]) == 1
    assert "error: the target holds other data" in capsys.readouterr().err
    assert run_command(["db", "copy", source, other, "--verify"]) == 1
    said = capsys.readouterr()
    assert "the two are not equal" in said.err
    assert "NO" in said.out
    assert run_command(["db", "copy", source, "ftp://somewhere"]) == 2
