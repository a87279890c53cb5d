"""`app.monitoring`: metrics, alert rules, missed runs, activity, and jobs that no running process can run."""

from __future__ import annotations

import json
from typing import Literal

from ..core.monitoring.activity import ActivitySeries
from ..core.monitoring.missed_runs import MissedReason, MissedRuns, missed_filter
from ..core.monitoring.watchdog import LateJob
from ..core.queries.execution_lists import MAX_PAGE
from ..core.rules.activity import Span
from ..core.rules.problems import ProblemList
from ..model.values.given import Duration, When
from ..model.values.reading import choice, duration, whole
from ..observe.metrics.alert_rules import SLACK, RecentDurations, rule_groups, rules_file
from ..observe.metrics.grafana import dashboard
from .parts import Parts
from .runtime import Runtime

LAST_RUNS = 100


class AppMonitoring:
    """Metrics, alert rules, problems, missed runs, and activity over time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def metrics_page(self) -> bytes:
        """The page that `/metrics` serves, in the text format of Prometheus."""
        return await self._runtime.metrics_page()

    async def problems(self) -> ProblemList:
        """What needs attention, the most urgent first: new errors, late jobs, long queues, stuck runs, silent workers
        and the like. Lists at most 50 problems, and counts the others. The list may be a few seconds old."""
        return await (await self._runtime.engine()).problems.all()

    async def late(self) -> list[LateJob]:
        """The jobs whose tick is overdue by more than its grace, because no scheduler has run them.

        This call also records missed ticks that no watcher has found yet, and emits `Missed` events for them, as
        `mainspring watch` does.
        """
        return await (await self._runtime.engine()).watch.look()

    async def missed_runs(
        self,
        job: str | None = None,
        *,
        reason: MissedReason | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> list[MissedRuns]:
        """The missed runs that watchers have found within the last 30 days, newest first. `reason` is no_scheduler or
        scheduler_behind. `since` and `until` refer to the first of several consecutive missed runs."""
        wanted = missed_filter(job, reason, since, until)
        return await (await self._runtime.engine()).watch.ledger.all(wanted)

    async def activity(self, span: Span = "24h") -> ActivitySeries:
        """How many executions ended in each state, and how late scheduled runs began: by minute over the last hour
        ("1h"), by quarter of an hour over the last 24 hours ("24h"), or by hour over the last 7 days ("7d").

        The numbers are up to fifteen seconds old. If a process crashes, those of its last ten seconds are lost.
        """
        return await (await self._runtime.engine()).activity.series(span)

    async def waiting_for_code(self) -> dict[str, int]:
        """The jobs whose handler no running process has, and how many of their executions are waiting."""
        return await (await self._runtime.engine()).queries.waiting_for_code()

    async def alert_rules(self, slack: Duration = SLACK, *, form: Literal["yaml", "json"] = "yaml") -> str:
        """A file of alert rules for Prometheus. Its limits are derived from the schedule, the timeout and the last runs
        of every job that has metrics. `slack` is how late a job may be before an alert fires."""
        seconds = duration("slack", slack, allow_zero=True)
        choice("form", form, ("yaml", "json"))
        parts = await self._runtime.engine()
        reading = await parts.readings.read()
        jobs = [(each.job, await _history(parts, each.job.name)) for each in reading.jobs]
        if form == "json":
            return json.dumps(rule_groups(jobs, reading.at, seconds), indent=2) + "\n"
        return rules_file(jobs, reading.at, seconds)

    async def left_out(self, limit: int = 20) -> tuple[int, list[str]]:
        """How many jobs have neither metrics nor alert rules, because there are more jobs than the setting
        `metrics_jobs`, and the names of some of them."""
        readings = (await self._runtime.engine()).readings
        count = (await readings.read()).left_out
        return count, await readings.names_left_out(whole("limit", limit, 1, MAX_PAGE)) if count else []

    async def grafana_dashboard(self) -> str:
        """A Grafana dashboard for the jobs that have metrics, as JSON."""
        reading = await (await self._runtime.engine()).readings.read()
        return dashboard([each.job.name for each in reading.jobs])


async def _history(parts: Parts, job: str) -> RecentDurations:
    """How long the successful attempts of the last completed executions took."""
    runs = await parts.queries.executions(job, status="completed", limit=LAST_RUNS)
    taken = [run.attempts[-1].duration_ms if run.attempts else run.duration_ms for run in runs]
    return RecentDurations(tuple(ms / 1000 for ms in taken if ms is not None))
