"""Everything at once, for a while: processes are killed, stopped past their lease and replaced, the server crashes and
freezes, clocks are an hour apart, and all features share one database. Afterwards nothing is lost, doubled or untrue.

`make chaos SECONDS=360` runs it for six minutes on each database; `make test` for some seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mainspring import Execution, State, StoreError
from mainspring.core.views.execution import row_of
from tests.crash.chaos_node import BAD_TENANT, MISSED, NARROW, PERIOD, TENANTS, chaos_app
from tests.crash.handlers import LEASE, Witnessed
from tests.crash.processes import PATIENCE, Process, Processes, until
from tests.crash.tables import address_file, due_jobs, is_intact, live
from tests.crash.tally import TALLY
from tests.mongo_server import Mongo, new_mongo
from tests.servers import Postgres, new_postgres

SECONDS = float(os.environ.get("CHAOS_SECONDS", "5"))
SEED = int(os.environ.get("CHAOS_SEED", "0")) or time.time_ns() % 1_000_000
NODES = 3
SKEWS = (-3600, 0, 3600)
"""Seconds by which clocks are off. Not of processes that share a file: they are on one machine, with one clock."""
KEYS = 4
BACKFILL = ("2026-01-01", "2026-01-21")
WINDOWS = 20
SLACK = timedelta(milliseconds=500)
"""How far two processes may be apart in what they believe the store's clock shows."""


@pytest.mark.parametrize("database", ["sqlite", "postgres", "mongo"], indirect=True)
@pytest.mark.req("REL-1", "WRK-3", "WRK-4", "TIM-6", "TIM-7", "WIN-2", "WIN-5", "FLW-1", "FLW-3", "ENQ-3", "TEN-4")
async def test_nothing_is_lost_doubled_or_untrue(
    tmp_path: Path, processes: Processes, database: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    app = chaos_app(tmp_path)
    try:
        await app.open()
        client = Client(app, chance)
        chaos = Chaos(app, processes, database, chance)
        await chaos.begin()
        async with client.at_work():
            await chaos.go_on_for(SECONDS)
        await _drain(app, tmp_path)
        done = Judge(app, client, await _all(app))
        await done.judge()
        assert is_intact(tmp_path)
        with capsys.disabled():
            print(f"\n  {database}, seed {SEED}: {chaos}; {client}; {done}")
    except AssertionError:
        print(f"seed {SEED}")
        raise
    finally:
        await app.close()


# --- servers ------------------------------------------------------------------------------------------------------


class Server:
    """What can be done to a database: crash it, and freeze it for a moment."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        if self.is_networked:
            address_file(folder).write_text(_own(name).new_database())

    def __str__(self) -> str:
        return self._name

    @property
    def is_networked(self) -> bool:
        return self._name != "sqlite"

    async def crash(self) -> bool:
        if not self.is_networked:
            return False
        server = _own(self._name)
        server.kill()
        await until(lambda: _started(server), PATIENCE, "the server is back")
        return True

    async def freeze(self, seconds: float) -> None:
        with self._frozen():
            await asyncio.sleep(seconds)

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        """Of a file: somebody keeps it locked."""
        if not self.is_networked:
            with closing(sqlite3.connect(self._folder / "crash.db", isolation_level=None, timeout=30)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield
                connection.execute("ROLLBACK")
        else:
            server = _own(self._name)
            server.pause()
            try:
                yield
            finally:
                server.go_on()


@cache
def _own(name: str) -> Postgres | Mongo:
    """Not the ones other tests share. PostgreSQL forgets what it has not synced yet when it is killed, as it would on
    a machine that loses power."""
    server = new_postgres() if name == "postgres" else new_mongo("replica_set")
    server.start()
    return server


def _started(server: Postgres | Mongo) -> bool:
    """What is left of a killed server may still be ending."""
    try:
        server.start()
    except RuntimeError:
        return False
    return True


@pytest.fixture
def database(tmp_path: Path, request: pytest.FixtureRequest) -> Server:
    return Server(request.param, tmp_path)


# --- what goes wrong ----------------------------------------------------------------------------------------------


class Chaos:
    def __init__(self, app: Witnessed, processes: Processes, server: Server, chance: random.Random) -> None:
        self._app, self._processes, self._server, self._chance = app, processes, server, chance
        self._did: Counter[str] = Counter()
        self._stopped: list[Process] = []

    async def begin(self) -> None:
        for _ in range(NODES):
            self._start_node()
        await until(self._all_there, PATIENCE, "all nodes take part")

    async def _all_there(self) -> bool:
        return len(await self._app.workers()) >= NODES

    async def go_on_for(self, seconds: float) -> None:
        """Each kind of trouble in turn, in an order of chance, so that a short run has all of them too."""
        end = time.monotonic() + seconds
        kinds: list[Callable[[], Awaitable[None]]] = []
        while time.monotonic() < end or kinds:
            if not kinds:
                kinds = [self._kill, self._stop_past_lease, self._replace, self._crash, self._freeze]
                self._chance.shuffle(kinds)
            with suppress(StoreError):
                await kinds.pop()()
            await asyncio.sleep(self._chance.uniform(0.1, 1.0))
        for process in self._stopped:
            process.go_on()

    def _start_node(self) -> None:
        self._processes.start(
            "chaos_node", "scheduler,worker", self._chance.choice(SKEWS if self._server.is_networked else (0,))
        )

    async def _victim(self) -> Process | None:
        """One that may die or sleep: not the one whose execution would rightly be quarantined for it."""
        alive = [each for each in self._processes.alive() if each not in self._stopped]
        for process in self._chance.sample(alive, len(alive)):
            await self._app.halt(process)
            try:
                if not any(row_of(each).alone for each in await self._app.running(process)):
                    return process
            except StoreError:
                pass
            process.go_on()
        return None

    async def _kill(self) -> None:
        if victim := await self._victim():
            victim.kill()
            self._count("kills")
            TALLY.kills += 1
            self._start_node()

    async def _stop_past_lease(self) -> None:
        if victim := await self._victim():
            self._stopped.append(victim)
            await asyncio.sleep(LEASE * self._chance.uniform(1.2, 1.8))
            victim.go_on()
            self._stopped.remove(victim)
            self._count("stops past the lease")

    async def _replace(self) -> None:
        if victim := await self._victim():
            victim.go_on()
            victim.send(signal.SIGTERM)
            self._count("graceful stops")
            self._start_node()

    async def _crash(self) -> None:
        if await self._server.crash():
            self._count("server crashes")

    async def _freeze(self) -> None:
        await self._server.freeze(LEASE * self._chance.uniform(0.2, 0.6))
        self._count("freezes")

    def _count(self, what: str) -> None:
        self._did[what] += 1

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self._did.items())


# --- what goes on -------------------------------------------------------------------------------------------------


class Client:
    """As a web application would: what fails, fails, and the next request comes."""

    def __init__(self, app: Witnessed, chance: random.Random) -> None:
        self._app, self._chance = app, chance
        self.acknowledged: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self.backfills: list[str] = []
        self.most_at_once = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        over = asyncio.Event()
        tasks = [asyncio.create_task(self._repeat(over, *each)) for each in self._requests()]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*tasks)

    def _requests(self) -> list[tuple[str, float, Callable[[], Awaitable[Any]]]]:
        app, chance = self._app, self._chance

        async def plain() -> Execution | None:
            fails = chance.choice([0, 0, 0, 1, 2])
            return await app.enqueue("plain", {"fails": fails, "seconds": chance.choice([0.01, 0.05, 0.4])})

        async def keyed() -> Execution | None:
            key = f"key-{chance.randrange(KEYS)}"
            return await app.enqueue("keyed", {"key": key, "seconds": chance.choice([0.02, 0.6])}, unique=key)

        async def backfill() -> None:
            self.backfills.append((await app.backfill("report", *BACKFILL, concurrency=3)).id)

        async def look() -> None:
            found = await app.executions(job="narrow", running=True, limit=100)
            self.most_at_once = max(self.most_at_once, sum(each.state is State.RUNNING for each in found))

        return [
            ("plain", 0.05, plain),
            ("keyed", 0.05, keyed),
            ("narrow", 0.1, lambda: app.enqueue("narrow", {"seconds": 0.1})),
            ("first", 0.3, lambda: app.trigger("first")),
            ("nightly", 3.0, lambda: app.trigger("nightly")),
            ("report", 600.0, backfill),
            ("look", 0.2, look),
        ]

    async def _repeat(self, over: asyncio.Event, job: str, pause: float, request: Callable[[], Awaitable[Any]]) -> None:
        while not over.is_set():
            try:
                made = await request()
            except StoreError:
                self.refused[job] += 1
            else:
                if isinstance(made, Execution):
                    self.acknowledged[made.id] = job
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), pause)

    def __str__(self) -> str:
        return f"{len(self.acknowledged)} acknowledged, {self.refused.total()} refused"


async def _drain(app: Witnessed, folder: Path) -> None:
    for name in MISSED:
        await until(lambda name=name: _paused(app, name), PATIENCE)
    await until(lambda: _quiet(folder), PATIENCE, "everything has ended", every=0.2)


async def _paused(app: Witnessed, name: str) -> bool:
    try:
        return (await app.pause(name)).is_paused
    except StoreError:
        return False


def _quiet(folder: Path) -> bool:
    return due_jobs(folder) == 0 and live(folder) == 0


# --- what must be true afterwards ---------------------------------------------------------------------------------


class Judge:
    def __init__(self, app: Witnessed, client: Client, rows: list[Execution]) -> None:
        self._app, self._client, self._rows = app, client, rows
        self._by_job: dict[str, list[Execution]] = defaultdict(list)
        for row in rows:
            self._by_job[row.job].append(row)
        self._quarantined = 0

    async def judge(self) -> None:
        assert set(self._client.acknowledged) <= {row.id for row in self._rows}, "an acknowledged execution is lost"
        for job, count in Counter(self._client.acknowledged.values()).items():
            made = [row for row in self._by_job[job] if row.tenant is None]
            assert count <= len(made) <= count + self._client.refused[job], f"{job}: {count} asked, {len(made)} made"
        for row in self._rows:
            self._judge_ending(row)
        self._judge_ledger()
        self._judge_keys()
        assert self._client.most_at_once <= NARROW
        self._judge_tenants()
        self._judge_dependencies()
        await self._judge_backfills()
        for name in MISSED:
            self._judge_ticks(self._by_job[name])
        await until(self._counted, PATIENCE, "statistics agree with history")

    def _judge_ending(self, row: Execution) -> None:
        """All work completes in the end, but for the tenant that fails and what so many kills have quarantined."""
        ends = [attempt.end for attempt in row.attempts]
        if row.state is State.FAILED and row.reason == "crash_loop":
            assert ends.count("worker_lost") >= 3, (row.id, ends)
            self._quarantined += 1
        elif row.tenant == BAD_TENANT:
            assert row.state is State.FAILED
        elif row.job == "nightly" and row.tenant is None:
            assert row.state is State.PARTIAL
        elif row.reason != "missed":
            assert (row.state, ends.count("completed"), ends[-1]) == (State.COMPLETED, 1, "completed"), (row.id, ends)
            assert ends.count("failed") == row.params.get("fails", 0)

    def _judge_ledger(self) -> None:
        ledger = self._app.ledger
        finals = ("completed", "failed", "partial", "cancelled")
        accepted = Counter(line["id"] for line in ledger.lines("accepted") if line["state"] in finals)
        assert max(accepted.values()) == 1, "an execution has ended twice"
        begun = Counter((line["id"], line["token"]) for line in ledger.lines("began"))
        twice = {key: count for key, count in begun.items() if count > 1}
        assert not twice, f"begun twice under one token: {twice}"

    def _judge_keys(self) -> None:
        by_key: dict[str, list[Execution]] = defaultdict(list)
        for row in self._by_job["keyed"]:
            by_key[row.params["key"]].append(row)
        for key, rows in by_key.items():
            rows.sort(key=lambda row: row.id)  # one client enqueues them, one after another
            for one, other in itertools.pairwise(row for row in rows if row.started_at is not None):
                assert one.finished_at is not None
                assert other.started_at is not None
                assert other.started_at > one.finished_at - SLACK, f"{key}: {one.id} and {other.id} lived at once"

    def _judge_tenants(self) -> None:
        children: dict[str | None, list[Execution]] = defaultdict(list)
        for row in self._by_job["nightly"]:
            children[row.parent_id].append(row)
        wanted = {"total": len(TENANTS), "success": len(TENANTS) - 1, "failed": 1}
        for parent in children.pop(None, []):
            mine = children.pop(parent.id)
            assert sorted(row.tenant or "" for row in mine) == TENANTS
            lost = sum(row.reason == "crash_loop" for row in mine if row.tenant != BAD_TENANT)
            assert parent.result == wanted | {"success": wanted["success"] - lost, "failed": 1 + lost}
            assert parent.finished_at is not None
            assert all(row.finished_at is not None and row.finished_at <= parent.finished_at for row in mine)
        assert not children, "tenants without a parent"

    def _judge_dependencies(self) -> None:
        completed = [row for row in self._by_job["first"] if row.state is State.COMPLETED]
        assert len(self._by_job["second"]) == len(completed)
        assert len({row.flow_id for row in self._by_job["second"]}) == len(completed)

    async def _judge_backfills(self) -> None:
        windows = Counter(row.window for row in self._by_job["report"] if row.state is State.COMPLETED)
        assert set(windows.values()) <= {1}, "a window ran twice"
        for id in self._client.backfills:
            over = await self._app.backfills.get(id)
            assert (over.state, over.total) == ("completed", WINDOWS)
            assert len(windows) == WINDOWS

    def _judge_ticks(self, rows: list[Execution]) -> None:
        """Every tick is there once: as an execution, or inside the record of one gap."""
        seen: Counter[datetime] = Counter()
        for row in rows:
            if row.reason != "missed":
                seen[row.scheduled_at] += 1
                continue
            first, last = (datetime.fromisoformat(row.metadata[each]) for each in ("from", "to"))
            ticks = [first + number * timedelta(seconds=PERIOD) for number in range(row.metadata["count"])]
            assert ticks[-1] == last, (row.id, row.metadata)
            seen.update(ticks)
        twice = [tick for tick, count in seen.items() if count > 1]
        assert not twice, f"{rows[0].job}: listed twice: {sorted(twice)}"
        span = max(seen) - min(seen)
        assert len(seen) == round(span.total_seconds() / PERIOD) + 1, f"{rows[0].job}: {len(seen)} ticks in {span}"

    async def _counted(self) -> bool:
        """Gap records are no runs."""
        wanted = Counter(row.state for row in self._rows)
        stats = [view.stats for view in await self._app.jobs()]
        found = {
            State.COMPLETED: sum(each.completed for each in stats),
            State.FAILED: sum(each.failed for each in stats),
        }
        return all(wanted[state] == count for state, count in found.items())

    def __str__(self) -> str:
        return f"{len(self._rows)} executions, {self._quarantined} quarantined"


async def _all(app: Witnessed) -> list[Execution]:
    found: list[Execution] = []
    while page := await app.executions(limit=500, before=found[-1].id if found else None):
        found += page
    return found
