"""The part of the application object that is about being watched: metrics, missed runs, dead-man's switches."""

from __future__ import annotations

import asyncio
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.monitoring.missed_runs import MissedRuns, missed_filter
from ..core.monitoring.watchdog import Late
from ..model.values.reading import choice, duration
from ..observe.metrics.alert_rules import SLACK, History, rule_groups, rules_file
from ..observe.metrics.grafana import dashboard
from ..observe.metrics.process_counters import ProcessCounts
from ..observe.metrics.prometheus import page
from ..observe.metrics.server import MetricsServer
from ..observe.pings.pings import Pings
from ..version import VERSION

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..observe.dispatch import Dispatcher
    from .parts import Parts

PINGS_AT_THE_END = 2.0
"""Seconds that pings get which are not out yet when the application closes."""
LAST_RUNS = 100


class MonitoringMethods:
    settings: Settings
    emit: Dispatcher

    if TYPE_CHECKING:

        @property
        def declares(self) -> tuple[str, ...]: ...
        async def _ready(self) -> Parts: ...

    async def metrics_page(self) -> bytes:
        """What `/metrics` answers, in the text format of Prometheus."""
        parts, counts = await self._ready(), self._counts
        reading = await parts.readings.read()
        counts.know([each.job.name for each in reading.jobs])
        return page(reading, counts, VERSION, parts.channels())

    async def late(self) -> list[Late]:
        """Jobs whose time and grace are over although no scheduler made them run. Ticks that nobody has told of yet
        are entered in the ledger and become `Missed` events here: for a process that watches, see `mainspring watch`.
        """
        return await (await self._ready()).watch.look()

    async def missed_runs(
        self, job: str | None = None, *, reason: str | None = None, since: Any = None, until: Any = None
    ) -> list[MissedRuns]:
        """The ledger of missed runs: what watchers have found within the last 30 days, the newest first. `reason` is
        no_scheduler or scheduler_behind; times are those of the first missed run of a stretch."""
        wanted = missed_filter(job, reason, since, until)
        return await (await self._ready()).watch.ledger.all(wanted)

    async def alert_rules(self, slack: Any = SLACK, *, form: str = "yaml") -> str:
        """A file of alert rules for Prometheus: for every job that has metrics, by its schedule, its timeout and how
        long its last runs took. `slack` is how much later than that a job may be before anybody is told; `form` is
        yaml or json."""
        seconds = duration("slack", slack, allow_zero=True)
        choice("form", form, ("yaml", "json"))
        parts = await self._ready()
        reading = await parts.readings.read()
        jobs = [(each.job, await _history(parts, each.job.name)) for each in reading.jobs]
        if form == "json":
            return json.dumps(rule_groups(jobs, reading.at, seconds), indent=2) + "\n"
        return rules_file(jobs, reading.at, seconds)

    async def grafana_dashboard(self) -> str:
        """A dashboard for Grafana over the jobs that have metrics, as JSON."""
        reading = await (await self._ready()).readings.read()
        return dashboard([each.job.name for each in reading.jobs])

    @cached_property
    def _counts(self) -> ProcessCounts:
        """Counts from when it is first asked for."""
        counts = ProcessCounts(self.settings.metrics_jobs)
        self.emit.add(counts)
        return counts

    @cached_property
    def _pings(self) -> Pings:
        pings = Pings(self.settings.private_urls)
        self.emit.add(pings)
        return pings

    def _observe(self) -> None:
        """Before the roles of this process start: nothing of what they do is to be missed."""
        self._pings.private = self.settings.private_urls
        if self.settings.metrics_port is not None or "api" in self.settings.roles:
            self._counts.know(self.declares)

    async def _serve_metrics(self, parts: Parts) -> None:
        """Listen, if this process is to show its metrics. Who cannot listen does nothing else either."""
        if self.settings.metrics_port is None:
            return
        settings = self.settings
        server = MetricsServer(settings.host, settings.metrics_port or 0, settings.sys_allow, self.metrics_page)
        await server.start()
        parts.metrics = server

    async def _end_pings(self) -> None:
        """Whose jobs ping nobody gets no thread for it, which would outlive the application."""
        if "_pings" in self.__dict__ and self._pings.waiting:
            await asyncio.to_thread(self._pings.flush, PINGS_AT_THE_END)


async def _history(parts: Parts, job: str) -> History:
    """Of each of the last successes the try that succeeded."""
    runs = await parts.queries.executions(job, status="completed", limit=LAST_RUNS)
    taken = [run.attempts[-1].duration_ms if run.attempts else run.duration_ms for run in runs]
    return History(tuple(ms / 1000 for ms in taken if ms is not None))
