"""The application every process of the crash suite runs, and the handlers it kills them with.

Handlers tell the ledger when they begin and end. Those that wait look for a file in the folder of the test, so that
the test decides when they go on.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mainspring import Execution, JobContext, Limit, Mainspring, Retry, State
from mainspring.core.ports import Store
from mainspring.core.views.execution import row_of
from mainspring.core.webhooks.hand_over import SYSTEM_JOB
from mainspring.model.errors import StoreError
from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import (
    Added,
    Audit,
    Change,
    ClaimRequest,
    Exchanged,
    HeartbeatReply,
    HeartbeatRequest,
    ProgressReport,
)
from tests.crash.ledger import Ledger
from tests.crash.processes import PATIENCE, Process, until
from tests.crash.tables import address_in, is_locked

LEASE = 2.0
FAST: dict[str, Any] = {
    "lease": LEASE,
    "heartbeat": LEASE / 4,
    "rescue_interval": 0.2,
    "poll_interval": 1.0,
    "fold_interval": 0.5,
    "stop_timeout": 10.0,
}
UNDISTURBED: dict[str, Any] = {"lease": 60}
"""For processes that nobody kills: however long a busy machine lets one wait, its leases do not run out."""
FOR_EVER = 600.0
AT_ONCE = Retry(initial="50ms", multiplier=1)
NARROW = 3
PACE, BURST = 50, 5


def database(folder: Path) -> str:
    """The address that a test has chosen by writing it down; otherwise a file in its folder."""
    return address_in(folder) or f"sqlite:///{folder / 'crash.db'}"


def ledger_of(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.jsonl")


class WitnessedStore:
    """A store that tells the ledger which fenced writes were refused, and that a test can hold up with files."""

    def __init__(self, store: Store, ledger: Ledger, folder: Path) -> None:
        self._store, self._ledger, self._folder = store, ledger, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        if any(change.rescue for change in changes) and self._held("rescues"):
            self._ledger.write("holding", write="rescue")
            await until(lambda: not self._held("rescues"), FOR_EVER)
        reply = await self._store.exchange(changes, claim)
        for change, applied in zip(changes, reply.applied, strict=True):
            if not applied:
                self._refused("rescue" if change.rescue else "ending", change.id, change.token)
        return reply

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        stored = await self._store.report(reports)
        for report, kept in zip(reports, stored, strict=True):
            if not kept:
                self._refused("log" if report.logs else "note", report.id, report.token)
        return stored

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        if self._held("beats-hang"):
            self._ledger.write("holding", write="beat")
            while self._held("beats-hang"):
                time.sleep(0.01)
        if self._held("beats-fail"):
            raise StoreError("no way to the store")
        if self._held(f"beats-{os.getpid()}"):
            self._ledger.write("deaf")
            return HeartbeatReply(lost=frozenset(), cancels={}, now=beat.worker.seen)
        reply = self._store.heartbeat(beat)
        for id, token in beat.leases:
            if id in reply.lost:
                self._refused("lease", id, token)
        return reply

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        marked = await self._store.todo(limit, after)
        if marked and self._held("follow-ups"):
            self._ledger.write("holding", write="follow-ups")
            await until(lambda: not self._held("follow-ups"), FOR_EVER)
        return marked

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        if any(each.job == SYSTEM_JOB for each in executions) and self._held("deliveries"):
            self._ledger.write("holding", write="deliveries")
            await until(lambda: not self._held("deliveries"), FOR_EVER)
        return await self._store.add(executions, audit)

    async def todo_done(self, ids: Sequence[str]) -> None:
        if self._held("marks"):
            self._ledger.write("holding", write="marks")
            await until(lambda: not self._held("marks"), FOR_EVER)
        await self._store.todo_done(ids)

    def _refused(self, write: str, id: str, token: int) -> None:
        self._ledger.write("refused", write=write, id=id, token=token)

    def _held(self, what: str) -> bool:
        return hold(self._folder, what).exists()


class Witnessed(Mainspring):
    """The application as users get it, around a store that bears witness."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.ledger = ledger_of(folder)
        super().__init__(database(folder), observers=[self.ledger.observe], **(FAST | settings))
        self.folder = folder
        self._gates = itertools.count()
        self.provide("ledger", self.ledger)
        self.provide("folder", folder)
        make_store = self._runtime._make_store

        def witnessed() -> Any:
            return WitnessedStore(make_store(), self.ledger, self.folder)

        self._runtime._make_store = witnessed  # type: ignore[method-assign]

    async def close(self) -> None:
        await super().close()
        self.ledger.close()

    async def halt(self, process: Process) -> None:
        """Between two transactions: a process stopped inside one would keep the file's write lock from everybody."""

        def paused() -> bool:
            process.pause()
            if is_locked(self.folder):
                process.go_on()
                return False
            return True

        await until(paused, PATIENCE)

    @asynccontextmanager
    async def at_work(self, job: str = "work", executions: int = 1) -> AsyncIterator[None]:
        """So many executions more, which do not end before this does: somebody is at work, however quickly all else
        is done and however late the test comes to look."""
        gate = f"gate-{next(self._gates)}"
        hold(self.folder, gate).touch()
        await self.enqueue_many([(job, {"gate": gate})] * executions, priority=10)
        try:
            yield
        finally:
            hold(self.folder, gate).unlink()

    async def running(self, process: Process) -> list[Execution]:
        """By the store: the running executions whose owner is the worker with this pid."""
        owners = {worker.id for worker in await self.workers() if worker.pid == process.pid}
        return [each for each in await self.executions(running=True, limit=500) if each.worker in owners]

    async def all_in(self, state: State, executions: Sequence[Execution | None]) -> bool:
        return all([(await self.get(each.id)).state is state for each in executions if each is not None])


def build(folder: Path, **settings: Any) -> Witnessed:
    app = Witnessed(folder, **settings)
    for handler in (work, work_in_thread, wait, wait_in_thread, stubborn, poison):
        app.job(handler.__name__, retry=AT_ONCE, max_attempts=100)(handler)
    for handler in (sleep_on_loop, sleep_in_thread, block_loop, compute):
        app.job(handler.__name__, retry=AT_ONCE, max_attempts=3)(handler)
    app.job("tick")(tick)
    app.job("release")(release)
    app.job("exclusive", overlap="skip")(exclusive)
    app.job("narrow", retry=AT_ONCE, max_attempts=100, limits=Limit("narrow", concurrency=NARROW))(work)
    app.job("paced", retry=AT_ONCE, max_attempts=100, limits=Limit("paced", rate=PACE, burst=BURST))(work)
    return app


def who(ctx: JobContext) -> dict[str, int]:
    """The result of a run: which claim, in which process."""
    return {"token": row_of(ctx.execution).token, "pid": os.getpid()}


# --- work of some milliseconds ----------------------------------------------------------------------------------


async def work(ctx: JobContext, n: int = 0, seconds: float = 0.02, gate: str = "") -> dict[str, int]:
    ctx.resources.ledger.began(ctx)
    if gate:
        await until(lambda: not hold(ctx.resources.folder, gate).exists(), FOR_EVER)
    await asyncio.sleep(seconds)
    ctx.resources.ledger.ended(ctx)
    return who(ctx)


def work_in_thread(ctx: JobContext, n: int = 0, seconds: float = 0.02) -> dict[str, int]:
    ctx.resources.ledger.began(ctx)
    time.sleep(seconds)
    ctx.resources.ledger.ended(ctx)
    return who(ctx)


async def exclusive(ctx: JobContext, seconds: float = 0.02) -> None:
    ctx.resources.ledger.began(ctx)
    await asyncio.sleep(seconds)
    ctx.resources.ledger.ended(ctx)


async def tick(ctx: JobContext) -> None:
    ctx.resources.ledger.began(ctx)


async def release(ctx: JobContext, what: str, seconds: float = 0.5) -> None:
    """What a test would do, done by the worker itself: how quickly the test looks does not matter. All that the worker
    does beside it has had a turn by then."""
    await asyncio.sleep(seconds)
    hold(ctx.resources.folder, what).unlink()


# --- work that goes on until the test says so -------------------------------------------------------------------


def hold(folder: Path, what: str) -> Path:
    """While this file exists:

    beats-PID         that worker believes that its beats get through, but they do not
    beats-hang        no beat comes back
    beats-fail        every beat fails
    rescues           a janitor that has seen a lease run out waits before it acts
    follow-ups        a janitor that has seen a mark waits before it acts
    deliveries        a process that hands over events waits before it adds their deliveries
    marks             a janitor that has done its follow-ups waits before it clears their marks
    """
    return folder / f"hold-{what}"


def go(folder: Path, claim: int) -> Path:
    """While this file is missing, runs of that claim wait."""
    return folder / f"go-{claim}"


async def wait(ctx: JobContext) -> dict[str, int]:
    ctx.resources.ledger.began(ctx)
    try:
        await until(go(ctx.resources.folder, row_of(ctx.execution).claims).exists, FOR_EVER)
    except asyncio.CancelledError:
        ctx.resources.ledger.write("interrupted", id=ctx.execution_id, claim=row_of(ctx.execution).claims)
        raise
    ctx.resources.ledger.ended(ctx)
    return who(ctx)


def wait_in_thread(ctx: JobContext) -> dict[str, int]:
    """Reports progress and log lines all the time, and never looks whether it should stop."""
    ctx.resources.ledger.began(ctx)
    rounds = 0
    while not go(ctx.resources.folder, row_of(ctx.execution).claims).exists():
        rounds += 1
        ctx.progress(rounds, message=f"claim {row_of(ctx.execution).claims}")
        ctx.logger.info("claim %d", row_of(ctx.execution).claims)
        time.sleep(0.05)
    ctx.resources.ledger.ended(ctx)
    return who(ctx)


async def stubborn(ctx: JobContext) -> dict[str, int]:
    """Swallows every cancellation."""
    ctx.resources.ledger.began(ctx)
    while not go(ctx.resources.folder, row_of(ctx.execution).claims).exists():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            ctx.resources.ledger.write("swallowed", id=ctx.execution_id)
    return who(ctx)


# --- work that takes far longer than a lease --------------------------------------------------------------------


async def sleep_on_loop(ctx: JobContext, seconds: float) -> dict[str, int]:
    ctx.resources.ledger.began(ctx)
    await asyncio.sleep(seconds)
    return who(ctx)


def sleep_in_thread(ctx: JobContext, seconds: float) -> dict[str, int]:
    ctx.resources.ledger.began(ctx)
    time.sleep(seconds)
    return who(ctx)


async def block_loop(ctx: JobContext, seconds: float) -> dict[str, int]:
    """Nothing else of its event loop runs meanwhile."""
    ctx.resources.ledger.began(ctx)
    time.sleep(seconds)
    return who(ctx)


async def compute(ctx: JobContext, seconds: float) -> dict[str, int]:
    """Blocks the event loop and keeps the interpreter busy."""
    ctx.resources.ledger.began(ctx)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
    return who(ctx)


# --- work that kills --------------------------------------------------------------------------------------------


async def poison(ctx: JobContext, seconds: float = 0.3) -> None:
    ctx.resources.ledger.began(ctx)
    await asyncio.sleep(seconds)
    os._exit(13)
