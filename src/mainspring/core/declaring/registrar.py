"""The registrar: one method per kind of schedule, for objects with `execute(ctx)`.

app.registrar.daily_at("report", ReportJob(mailer), "03:00", tz="Europe/Istanbul")
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from typing import Any, Unpack

from ...model.triggers import Trigger, daily_at, every, hourly_at, monthly_at, weekly_at
from ...model.values.given import Duration, Weekday
from ...model.values.reading import duration
from .handler_types import HandlerCode
from .options import JobOptions
from .places import declaring
from .registry import Handler, Registry

At = str | time


class Registrar:
    """Declares one job per call: `id` is its name, `job` an object with `execute(ctx)` or a function.

    Each object is a handler under the id of its first call; a second id for the same object declares a second job of
    that handler. Every method also takes the options of `@app.job`.

    >>> registry = Registry()
    >>> class Report:
    ...     def execute(self, ctx): ...
    >>> Registrar(registry).daily_at("report", Report(), "03:00").name
    'report'
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def fixed_rate(self, id: str, job: HandlerCode, duration: Duration, /, **options: Unpack[JobOptions]) -> Handler:
        """At a fixed rate, by elapsed time: `fixed_rate("poll", PollJob(), "30s")`."""
        return self._declare(id, job, lambda: every(seconds=_seconds(duration)), options)

    def hourly_at(self, id: str, job: HandlerCode, minute: int, /, **options: Unpack[JobOptions]) -> Handler:
        """At this minute of every hour: `hourly_at("sync", SyncJob(), 15)`."""
        return self._declare(id, job, lambda: hourly_at(minute), options)

    def daily_at(self, id: str, job: HandlerCode, time: At, /, **options: Unpack[JobOptions]) -> Handler:
        """Every day at this time: `daily_at("report", ReportJob(), "03:00")`."""
        return self._declare(id, job, lambda: daily_at(time), options)

    def weekly_at(
        self, id: str, job: HandlerCode, weekday: Weekday, time: At, /, **options: Unpack[JobOptions]
    ) -> Handler:
        """Every week: `weekly_at("invoices", InvoiceJob(), "monday", "06:30")`."""
        return self._declare(id, job, lambda: weekly_at(weekday, time), options)

    def monthly_at(self, id: str, job: HandlerCode, day: int, time: At, /, **options: Unpack[JobOptions]) -> Handler:
        """Every month, in shorter months on the last day: `monthly_at("close", CloseJob(), 31, "23:30")`."""
        return self._declare(id, job, lambda: monthly_at(day, time), options)

    def _declare(self, id: str, job: HandlerCode, trigger: Callable[[], Trigger], options: JobOptions) -> Handler:
        with declaring(f"job {id!r}"):
            given: Any = {**options, "trigger": trigger()}
        if self._is_registered(job):
            return self._registry.schedule(id, job, **given)
        return self._registry.declare(id, job, **given)

    def _is_registered(self, job: Any) -> bool:
        """Whether this object, class or function is a handler already; a handle stands for its function."""
        return any(
            job is each or getattr(job, "__wrapped__", None) is each
            for handler in self._registry.handlers
            for each in (handler.given, handler.instance)
            if each is not None
        )


def _seconds(value: Any) -> float:
    return duration("duration", value)
