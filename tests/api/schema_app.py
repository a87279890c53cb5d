"""The application that requests are made up for: quick handlers, a running worker, and something of every kind to find.

Each start makes a new one on a store of its own, so that no test sees what another one did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI

from mainspring import JobContext, Mainspring, every
from mainspring.core.webhooks.hand_over import SYSTEM_JOB
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from tests.api.access_support import SECRET, signed
from tests.support import ended, until

ADMIN = {"Authorization": f"Bearer {signed()}"}
PEER = ("127.0.0.1", 50_000)
SCHEDULED = ("hourly", "ticking", "regular")
PAUSED = ("paused", "on-hold", "waits", "later")
STOPPED = [f"stopped-{number}" for number in range(8)]
CANCELLED = ("cancelled", "gone")
FAILED = ("fragile", "broken", "worn")
LATE = "2090-01-01T00:00:00Z"


class Point(msgspec.Struct):
    x: int
    label: str = ""


class Known(msgspec.Struct):
    """What there is to find."""

    jobs: list[str] = []
    handlers: list[str] = []
    ended: list[str] = []
    waiting: list[str] = []
    backfills: list[str] = []
    locks: list[str] = []
    calendars: list[str] = []
    tokens: list[str] = []
    templates: list[str] = []
    hooks: list[str] = []
    webhooks: list[str] = []
    errors: list[str] = []
    bulks: list[str] = []
    workers: list[str] = []
    drained: list[str] = []

    @property
    def executions(self) -> list[str]:
        return self.ended + self.waiting


def application(mended: asyncio.Event | None = None, url: str = "memory://") -> Mainspring:
    """Once `mended` is set nothing here fails: who runs a handler that fails gets a 500, as promised."""
    quick: dict[str, Any] = {"stop_timeout": 5, "fold_interval": 0.1}  # what has failed is counted when it is folded
    app = Mainspring(
        url, jwt_secret=SECRET, failed_logins_per_minute=100_000, exclude=[SYSTEM_JOB], private_urls=True, **quick
    )

    @app.job("quick")
    async def quick(ctx: JobContext, number: int = 1, words: list[str] | None = None) -> dict[str, int]:
        ctx.logger.info("number %d", number)
        ctx.progress(1, 2)
        ctx.count(numbers=1)
        return {"number": number}

    @app.job("typed")
    async def typed(point: Point, ratio: float = 0.5, urgent: bool = False) -> None: ...

    @app.job("fragile", max_attempts=1)
    async def fragile() -> None:
        if mended is not None and not mended.is_set():
            raise ValueError("not yet")

    @app.job("windows", cron="0 3 * * *", window="yesterday")
    async def windows(ctx: JobContext, region: str = "all") -> None: ...

    @app.job("hooked")
    async def hooked(payload: Any = None) -> None: ...

    app.calendars.declare("holidays", ["12-25"])
    for name in (*SCHEDULED, *PAUSED, *CANCELLED):
        app.schedule(name, "quick", every(hours=1))
    for name in FAILED[1:]:
        app.schedule(name, "fragile", max_attempts=1)
    return app


async def fill(app: Mainspring) -> Known:
    """Jobs in several states, executions that completed, failed and wait for ever, backfills, locks."""
    known = Known(handlers=sorted(app._runtime.registry.names))
    for name in PAUSED:
        await app.pause(name)
    for name in STOPPED:
        await app.queues.pause(name)
        await app.handlers.pause(name)
    for name in CANCELLED:
        await app.cancel(name)
    for name in ("quick", "hourly", *FAILED):
        known.ended.append((await ended(app, await app.trigger(name))).id)
    for _ in range(3):
        waits = await app.enqueue("quick", start_at=LATE)
        assert waits is not None
        known.waiting.append(waits.id)
    for month in range(1, 7):  # one window, at its pace: the others wait for hours
        begin, end = f"2026-0{month}-01T00:00:00Z", f"2026-0{month}-20T00:00:00Z"
        known.backfills.append((await app.backfill("windows", begin, end, pace="1h")).id)
    for id in known.backfills[::2]:
        await app.backfills.pause(id)
    for name in ("import", "export", "reports/daily"):
        assert await app.try_lock(name, "1h")
        known.locks.append(name)
    for name in ("hourly-run", "nightly-run"):
        known.templates.append((await app.templates.create(name, "quick", trigger=every(hours=1))).name)
    known.calendars = ["holidays", *(f"calendar-{number}" for number in range(8))]
    for name in known.calendars[1:]:
        await app.calendars.set(name, ["12-24"])
    for name in ("ci", "dashboard", "backup"):
        known.tokens.append((await app.tokens.create(name, "viewer")).token.id)
    for day in range(1, 9, 2):  # what aimed requests restore
        await app.skip_occurrence("windows", f"2090-01-{day:02}T03:00:00Z")
    for name in ("github", "billing", "deploys", "alerts"):
        known.hooks.append((await app.hooks.set(name, "hooked")).hook.name)
    for name in ("ops", "chat", "billing-events", "archive"):
        known.webhooks.append((await app.webhooks.create(f"http://127.0.0.1:1/{name}", id=name)).webhook.id)
    for _ in range(12):  # one item an hour: there is always something to abort
        known.bulks.append((await app.bulk.start("retry", "jobs", ["hourly", "ticking"], pace="1/h")).id)
    store = (await app._runtime.engine()).store
    for number in range(16):  # silent ones, so that draining them stops nothing
        info = WorkerInfo(id=f"{number:02}{number:034x}", host="elsewhere", pid=number, version="0", lease=3600.0)
        store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=3600.0))
        known.workers.append(info.id)
    known.drained = [await app.drain_worker(id) for id in known.workers[::2]]
    known.errors = [each.id for each in await until(app.errors.all)]
    known.jobs = [view.name for view in await app.jobs()]
    return known


class InProcess:
    """The interface as an ASGI application whose lifespan is that of a new Mainspring application with its worker."""

    def __init__(self) -> None:
        self.known = Known()
        self._api: FastAPI | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self._api is not None, "it has started"
        await self._api({**scope, "client": PEER}, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        async with self._running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        mended = asyncio.Event()
        app = application(mended)
        async with app:
            self.known, self._api = await fill(app), app.asgi()
            mended.set()
            yield
            self._api.state.streams.close()
