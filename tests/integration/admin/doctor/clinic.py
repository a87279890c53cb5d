"""What the tests of the doctor share: an installation to damage, and its examination."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mainspring import Mainspring
from mainspring.admin import schema
from mainspring.admin.doctor import Installation, examine_installation
from mainspring.app.adapters import SystemClock
from mainspring.cli.root import run_command
from mainspring.config.load import load
from mainspring.core.doctor.checks import CHECKS
from mainspring.core.doctor.examination import Report, examine
from mainspring.core.doctor.facts import Facts
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from mainspring.model.time.instants import SECOND
from mainspring.model.values.ids import first_id
from mainspring.testing.clock import FakeClock
from mainspring.version import VERSION

DAY = 86_400


class Clinic:
    """A database in a folder of its own. `examine` gathers everything as the command does."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.file = folder / "jobs.db"
        self.url = f"sqlite:///{self.file}"

    async def examine(self, url: str | None = None, app: Mainspring | None = None, **settings: Any) -> Report:
        url = url or self.url
        if url == self.url and not self.file.exists():
            await schema.migrate(url)
        given = app._runtime.settings if app is not None else load({"database_url": url, **settings}, {}, None)
        return await examine_installation(Installation(settings=given, url=url, app=app))

    def judge(self, **facts: Any) -> Report:
        """For what a test machine cannot have: the same rules over given facts."""
        return examine(CHECKS, Facts(**facts))

    async def command(self, *arguments: str) -> dict[str, Any]:
        """What `mainspring doctor -o json` prints."""
        with redirect_stdout(io.StringIO()) as out:
            code = await asyncio.to_thread(run_command, ["doctor", "-o", "json", *arguments])
        data: dict[str, Any] = json.loads(out.getvalue())
        assert code == (0 if data["healthy"] else 1)
        return data

    def module(self, name: str, declaration: str, **settings: Any) -> None:
        """A module with an application, which declares a job of the function `tidy`."""
        text = f"app = Mainspring({self.url!r}, **{settings!r})\ndef tidy(ctx): ...\n{declaration}\n"
        (self.folder / f"{name}.py").write_text(f"from mainspring import *\n{text}")
        self.patch.chdir(self.folder)
        self.patch.syspath_prepend(str(self.folder))

    @asynccontextmanager
    async def at_work(self, days_ago: float = 0.0, **options: Any) -> AsyncIterator[Mainspring]:
        """An application of the database that runs no role, some days ago."""
        clock = FakeClock(SystemClock().now() - round(days_ago * DAY * SECOND))
        app = Mainspring(self.url, clock=clock, **options)
        try:
            yield app
        finally:
            await app.close()

    async def worker(self, days_ago: float = 0.0, **fields: Any) -> None:
        """A process that has sent a heartbeat then."""
        async with self.at_work(days_ago) as app:
            await app.open()
            store = (await app._runtime.engine()).store
            now = await store.now()
            given = {"host": socket.gethostname(), "version": VERSION, "roles": ("scheduler", "worker"), **fields}
            made = first_id(now) if "id" not in fields else fields["id"]
            info = WorkerInfo(**({"id": made, "pid": 1, "lease": 30.0, "started": now} | given))
            store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=30.0))


def checks_of(result: Report | dict[str, Any]) -> set[str]:
    if isinstance(result, dict):
        return {each["check"] for each in result["findings"]}
    return {each.check for each in result.findings}


Result: TypeAlias = Report | dict[str, Any]
Induction = Callable[[Clinic], Awaitable[Result]]
INDUCED: dict[str, Induction] = {}


def induces(check: str) -> Callable[[Induction], Induction]:
    """Registers what brings about the finding of this check."""

    def register(induction: Induction) -> Induction:
        assert check not in INDUCED, check
        INDUCED[check] = induction
        return induction

    return register
