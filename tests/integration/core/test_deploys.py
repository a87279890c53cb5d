"""Several applications in one database notice each other, and what changed is in one list."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring import JobContext, Mainspring, every
from mainspring.cli.root import run_command
from mainspring.core.deploys import processes
from mainspring.core.deploys.processes import Processes
from mainspring.core.deploys.records import KEPT_FOR, expired
from mainspring.core.queries import changes
from mainspring.core.queries.changes import Changes
from mainspring.model.events import JobConflict
from mainspring.model.store.messages import Audit, WorkerInfo
from mainspring.model.values.ids import first_id
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.support import Seen, until

FAST = {"fold_interval": 0.05, "heartbeat": 0.05, "poll_interval": 0.05}


def shop(url: str, seen: Seen | None = None, release: str = "1.0", minutes: int = 5) -> Mainspring:
    app = Mainspring(url, application="shop", release=release, observers=[seen] if seen else (), **FAST)

    @app.job("sync", trigger=every(minutes=minutes))
    async def sync(ctx: JobContext) -> None: ...

    @app.job("ship")
    async def ship(ctx: JobContext) -> None: ...

    return app


def crm(url: str, seen: Seen | None = None) -> Mainspring:
    app = Mainspring(url, application="crm", release="7", observers=[seen] if seen else (), **FAST)

    @app.job("sync", trigger=every(minutes=30))
    async def other_sync(ctx: JobContext) -> None: ...

    return app


@pytest.mark.req("QUE-4")
async def test_applications_that_declare_the_same_job_are_warned_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    first, second = Seen(), Seen()
    async with shop(url, first) as one:
        assert (await one.job_view("sync")).conflict == ()
        async with crm(url, second) as two:
            [warned] = await until(lambda: second.of(JobConflict), "the second is warned")
            assert (warned.job, warned.other_application) == ("sync", "shop")
            assert warned.handler.endswith("crm.<locals>.other_sync")
            [warned] = await until(lambda: first.of(JobConflict), "the first is warned too")
            assert (warned.job, warned.other_application) == ("sync", "crm")
            assert [each.application for each in (await two.job_view("sync")).conflict] == ["crm", "shop"]
            assert (await two.job_view("ship")).conflict == ()
            workers = [(worker.application, worker.release) for worker in await two.workers()]
            assert sorted(workers) == [("crm", "7"), ("shop", "1.0")]
            async with shop(url):  # another process of the same application is nothing new
                pass
            assert await run_here("doctor", "--database-url", url) == 1
            findings = " ".join(capsys.readouterr().out.split())
            assert "job sync: running applications declare it with different code: crm as" in findings
        assert (len(first.of(JobConflict)), len(second.of(JobConflict))) == (1, 1)
        assert (await one.job_view("sync")).conflict == ()  # the other one has gone


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """Commands silence the logger of the process that they run in."""
    yield
    logging.getLogger("mainspring").handlers.clear()


async def run_here(*arguments: str) -> int:
    return await asyncio.to_thread(run_command, list(arguments))


@pytest.mark.req("SRC-6")
async def test_what_changed_is_one_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    async with shop(url):
        pass
    async with shop(url, release="1.1", minutes=10) as app, shop(url, release="1.1", minutes=10):
        await app.pause("sync", by="ann", note="too slow")
        await app.update_job("ship", by="bob", queue="slow")
        await app.trigger("ship", by="ann")
        found = await app.changes()
        kinds = ["update", "pause", "deploy", "declare", "stop", "deploy", "created"]
        assert [change.kind for change in found] == kinds
        deploy = found[2]
        assert (deploy.application, deploy.release, deploy.processes) == ("shop", "1.1", 2)
        assert found[3].after["trigger"] != found[3].before["trigger"]
        assert found[-1].jobs == ("ship", "sync")
        of_ship = await app.changes("2h", job="ship")
        assert [change.kind for change in of_ship] == ["update", "deploy", "stop", "deploy", "created"]
        assert [change.what for change in await app.changes(limit=1)] == ["update job:ship"]
        assert await app.changes("1d", until="1h") == []
    assert await run_here("changes", "--since", "2h", "--database-url", url, "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [change["kind"] for change in shown][:2] == ["stop", "update"]
    assert await run_here("changes", "--database-url", url) == 0
    out = capsys.readouterr().out
    assert "shop, release 1.1: 2 processes started on" in out
    assert re.search(r" pause +\w+ +job sync", out)
    assert await run_here("workers", "--database-url", url) == 0
    assert await run_here("doctor", "--database-url", url) == 0


@pytest.mark.req("SRC-6")
async def test_old_starts_are_removed_and_old_changes_left_out() -> None:
    clock = FakeClock()
    store, now = MemoryStore(clock), clock.now()
    await store.open()
    info = WorkerInfo(id=first_id(now), host="here", pid=1, version="0.2.0", application="shop", started=now)
    await Processes(store).started(info, {"sync": "shop.sync#1"})
    [entry] = await store.list_entries("process", "")
    assert not expired(entry, now + KEPT_FOR)
    assert expired(entry, now + KEPT_FOR + 1)
    assert [change.kind for change in await Changes(store).newest("1m")] == ["deploy"]
    clock.advance(120)
    assert await Changes(store).newest("1m") == []
    await Processes(store).stopped(info, clock.now())  # of a process that started before
    assert [change.kind for change in await Changes(store).newest("1m")] == ["stop"]


@pytest.mark.req("SRC-6")
async def test_a_list_reads_a_bounded_number_of_records_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_RECORDS", 10)
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    starts = Processes(store)
    for second in range(40):
        now, id = clock.now(), f"{first_id(clock.now())}-{second}"
        info = WorkerInfo(id=id, host="here", pid=1, version="0.2.0", started=now)
        info = replace(info, application="shop", release=str(second))
        await starts.started(info, {})
        await starts.stopped(info, now)
        clock.advance(60)
    *found, unread = await Changes(store).newest("1h")
    assert (unread.kind, {change.kind for change in found}) == ("unread", {"deploy", "stop"})
    releases = [change.release for change in found if change.kind == "deploy"]
    assert releases == [str(second) for second in range(39, 39 - len(releases), -1)]
    assert 5 <= len(releases) <= 10
    assert all(change.kind != "unread" for change in await Changes(store).newest("5m"))

    monkeypatch.setattr(processes, "MOST_RECORDS", 1000)
    monkeypatch.setattr(changes, "MAX_PAGE", 5)
    monkeypatch.setattr(changes, "LOOKED_AT", 10)
    now = clock.now()
    edits = [_audit(now - n * 1_000_000, "update") for n in range(3)]
    asked = [_audit(now - n * 1_000_000, "trigger") for n in range(3, 20)]
    await store.copy_in("audits", [*edits, *asked])
    assert [change.kind for change in await Changes(store).newest("1h", limit=2)] == ["update", "update"]
    kinds = [change.kind for change in await Changes(store).newest("1h", limit=5)]
    assert kinds == ["update", "update", "update", "unread"]
    assert [change.kind for change in await Changes(store).newest("2s", limit=5)] == ["update"] * 3


def _audit(at: int, action: str) -> Audit:
    return Audit(id=f"{first_id(at)}-7000-8000-000000000000", at=at, actor="ann", action=action, target="job:a")
