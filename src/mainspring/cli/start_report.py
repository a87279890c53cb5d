"""What a starting process logs: its settings, the next runs of its jobs, and jobs that no process declares."""

from __future__ import annotations

import asyncio
import logging
import textwrap
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any

from ..app.mainspring import Mainspring
from ..app.process import uses_uvloop
from ..core.views.job import JobView
from ..model.errors import MainspringError
from ..model.events import Running
from ..model.job import JobState
from ..observe.logs import run_lines
from ..observe.logs.formats import INDENT, EventText
from .screens.output import moment, now, without_distance

WIDTH = 100
"""Columns of a terminal that the lines fit."""
MOST_JOBS = 10
MOST_NAME = 26
STOPPED = (JobState.PAUSED, JobState.CANCELLED)

logger = logging.getLogger("mainspring")


def log_event(level: int, name: str, fields: dict[str, Any], lines: str | None = None) -> None:
    """One record with these fields; on a console it reads as `lines`, if they are given."""
    logger.log(level, EventText(name, fields, lines), extra={"event": name, **fields})


def report_start(app: Mainspring, options: dict[str, Any], processes: int = 1) -> None:
    """The most important settings; the intervals are logged once the process runs."""
    settings: dict[str, Any] = app.settings.in_force() | options
    fields = {
        "database": settings["database_url"],
        "jobs": len(app._runtime.declares),
        "roles": ",".join(settings["roles"]),
        "concurrency": settings["concurrency"],
        "timezone": settings["timezone"],
        **({"listens": f"{settings['host']}:{settings['port']}"} if "api" in settings["roles"] else {}),
        "event_loop": "uvloop" if uses_uvloop(settings["uvloop"]) else "asyncio",
        **({"processes": processes} if processes > 1 else {}),
    }
    words = " ".join(f"{name}={value}" for name, value in fields.items())
    log_event(logging.INFO, "starting", fields, _wrapped(words))


def _wrapped(words: str) -> str:
    return textwrap.fill(words, WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)


class _AfterStart:
    """An observer that reports once this process runs: only then does the store know all of its jobs."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._task: asyncio.Task[None] | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, Running):
            self._task = asyncio.get_running_loop().create_task(self._try())

    async def _try(self) -> None:
        try:
            await self._report()
        except MainspringError:
            return  # this process is stopping, or the store fails, which is reported elsewhere

    def _report(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError


class OrphanWatch(_AfterStart):
    """Logs the jobs whose executions wait for code that no process runs."""

    async def _report(self) -> None:
        for name, pending in (await self._app.monitoring.waiting_for_code()).items():
            fields = {"job": name, "pending": pending}
            text = f"job={name} pending={pending}: no running process declares it, so no process runs them"
            logger.warning("job_orphaned " + text, extra={"event": "job_orphaned", **fields})


class NextRuns(_AfterStart):
    """Lists the jobs that run next, as the store has them: operators may have paused or moved what code declares."""

    indent = INDENT
    before_first = ""

    async def _report(self) -> None:
        if not (found := await self._app.jobs(sort="next_run_at", limit=MOST_JOBS)):
            return
        more = found.total - len(found) if isinstance(found.total, int) else found.total
        fields = {"jobs": [_as_fields(job) for job in found], **({"more": more} if more else {})}
        lines = next_run_lines(found, more, now(), WIDTH - self.indent)
        log_event(logging.INFO, "next_runs", fields, self.before_first + lines)


class DevStart(NextRuns):
    """What `mainspring dev` reports: where the dashboard is; after a reload only that the new code runs."""

    indent = run_lines.INDENT
    before_first = "\n"

    def __init__(self, app: Mainspring, target: str, dashboard: str, again: bool) -> None:
        super().__init__(app)
        self._target, self._dashboard, self._again = target, dashboard, again

    async def _report(self) -> None:
        database, jobs = self._app.settings.in_force()["database_url"], len(self._app._runtime.declares)
        fields = {"application": self._target, "database": database, "jobs": jobs, "dashboard": self._dashboard}
        if self._again:
            return log_event(logging.INFO, "reloaded", fields, f"{self._target} runs the new code")
        log_event(logging.INFO, "dashboard", fields, f"{self._dashboard}  ({self._target} on {database})")
        return await super()._report()


def _as_fields(job: JobView) -> dict[str, str | None]:
    at = job.next_run_at
    return {
        "job": job.name,
        "next_run_at": None if at is None else at.isoformat(),
        "status": job.state.value,
        "schedule": job.schedule,
    }


def next_run_lines(jobs: Sequence[JobView], more: int | str | None, at: datetime, width: int) -> str:
    """One line for each: its name, its next run, its schedule in words. `more` is how many others there are."""
    rows = [(_cut(job.name, MOST_NAME), _next_run(job, at), job.description_of_schedule) for job in jobs]
    name_width, time_width = (max(len(row[place]) for row in rows) for place in (0, 1))
    left = width - name_width - time_width - 4
    lines = [f"{name:<{name_width}}  {when:<{time_width}}  {_cut(words, left)}".rstrip() for name, when, words in rows]
    return "\n".join([*lines, *([f"and {more} more: see mainspring jobs list"] if more else [])])


def _next_run(job: JobView, at: datetime) -> str:
    if job.next_run_at is not None:
        return "now" if job.next_run_at <= at else _without_distance_on_other_days(moment(job.next_run_at, at))
    return job.state.value if job.state in STOPPED else "-"


def _without_distance_on_other_days(text: str) -> str:
    return without_distance(text) if text.count("-") else text


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
