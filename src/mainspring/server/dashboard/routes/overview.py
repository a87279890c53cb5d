"""`/dashboard`: what is wrong, what runs now, what comes next."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from operator import add
from typing import Literal

import msgspec
from fastapi import APIRouter
from markupsafe import Markup, escape
from starlette.responses import Response

from ....core.filters.jobs import JobFilter
from ....core.monitoring.activity import ActivityPoint, ActivitySeries
from ....core.queries.execution_lists import LONGEST_RUNNING
from ....core.queries.queries import EXECUTION_ID
from ....core.rules.problems import Problem
from ....core.views.execution import Execution, success_of
from ....model.time.zones import known_zone
from ....model.values.reading import SYSTEM_PREFIX
from .. import format
from ..drawing import charts
from ..error_retries import retry_offer
from ..job_runs import CELLS, job_strip, outcome_words
from ..visit import PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard", route_class=PageRoute, include_in_schema=False)

SPANS = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days"}
COMING = 8
RUNNING = 10
FAILED_JOBS = 8
UNWELL = ("failed", "partial")
"""The last runs of the jobs that are listed as failed: a partial run has failed for some of its tenants."""
MOST_BARS = 100
COUNTED = ("completed", "partial", "failed", "cancelled", "skipped")
_PAGES = {
    "job": "jobs",
    "queue": "queues",
    "execution": "executions",
    "error_group": "errors",
    "bulk": "bulk",
    "backfill": "backfills",
    "webhook": "webhooks",
}
"""The kinds of subjects that have a page of their own, and the first part of its address."""


class ProblemRow(msgspec.Struct, frozen=True):
    """A problem with its links: the page of its subject, and the button that mends it or leads to where that is done. A
    button with `fields` is a form, any other a link."""

    problem: Problem
    text: Markup
    evidence: Markup
    link: str
    words: str
    to: str
    fields: dict[str, str] | None = None


@router.get("")
async def overview_page(visit: Viewing, span: Literal["1h", "24h", "7d"] | None = None) -> Response:
    engine = visit.engine
    (found, asked, hour, queues), (workers, rows, coming, failed) = await asyncio.gather(
        asyncio.gather(
            engine.problems.recent(),
            engine.activity.series(span or "24h"),
            engine.activity.series("1h"),
            engine.queues.all(),
        ),
        asyncio.gather(
            engine.queries.workers(),
            engine.queries.execution_lists.longest_running(),
            engine.job_lists.page(sort="next_run_at", limit=COMING),
            engine.job_lists.page(JobFilter(last_status=UNWELL), sort="-last_run_at", limit=FAILED_JOBS),
        ),
    )
    if any(view.completed_at is not None and view.completed_at > found.checked_at for view in failed.jobs):
        found = await engine.problems.all()  # the headline knows the failures that the page lists
    runs = await engine.queries.newest_runs(failed.jobs, CELLS) if failed.jobs else {}
    begun_lately = span is None and 0 < asked.totals.ended <= hour.totals.ended
    series = hour if begun_lately else asked  # else nearly all of the chart would be empty
    running = [Execution(row) for row in rows]
    own = [queue for queue in queues if not queue.name.startswith(SYSTEM_PREFIX)]
    return visit.page(
        "overview.html",
        problems=[problem_row(visit, each) for each in found.problems],
        left_out=found.left_out,
        checked_at=found.checked_at,
        span=series.span,
        spans=SPANS,
        outcomes=outcome_chart(visit, series),
        lateness=lateness_chart(visit, series),
        series=series,
        hour=hour.totals,
        late=hour.totals.late_at_most(0.99),
        ready=sum(queue.ready for queue in own),
        in_work=len(running),
        in_work_is_exact=len(running) < LONGEST_RUNNING,
        workers=[worker for worker in workers if "worker" in worker.roles],
        running=running[:RUNNING],
        more_running=max(0, len(running) - RUNNING),
        coming=[view for view in coming.jobs if view.next_run_at is not None],
        unserved={queue.name for queue in own if not queue.workers_alive},
        failed=failed.jobs,
        strips={name: job_strip(visit, each, f"{name}: {outcome_words(each)}") for name, each in runs.items()},
        success={view.name: success_of(runs.get(view.name, [])) for view in failed.jobs},
        jobs_total=coming.total,
    )


# --- problems


def problem_row(visit: Visit, problem: Problem) -> ProblemRow:
    link = _subject_url(visit, problem)
    words, to, fields = _mend(visit, problem, link)
    text, evidence = _linked(visit, problem.text), _evidence(visit, problem)
    return ProblemRow(problem, text, evidence, link, words, to, fields)


def _subject_url(visit: Visit, problem: Problem) -> str:
    """The page of the subject, or the list that shows it."""
    subject = problem.subject
    match subject.kind:
        case "worker":
            return visit.url("workers", search=subject.id)
        case "handler":
            return visit.url("jobs", handler=subject.name)
        case "application":
            return visit.url("changes")
        case "store":
            return visit.url("system")
        case kind:
            return visit.url(_PAGES[kind], subject.id or subject.name)


def _mend(visit: Visit, problem: Problem, link: str) -> tuple[str, str, dict[str, str] | None]:
    """The words on the button, where it leads, and the fields of its form if it changes something. Viewers get the
    links only."""
    subject = problem.subject
    name = subject.id or subject.name
    match problem.fix:
        case "retry_probe" if visit.operates:
            offer = retry_offer(visit, name, problem.details["open_failures"])
            return offer.words, offer.url, None
        case "why":
            return "Why?", f"{visit.url('jobs', name)}#why", None
        case "resume" if visit.operates:
            return "Resume", visit.url(f"{subject.kind}s", name, "resume"), {}
        case "undrain" if visit.operates:
            return "Take work again", visit.url("workers", name, "undrain"), {}
        case "enable_webhook" if visit.administers:
            return "Enable", visit.url("webhooks", name, "enable"), {}
        case "open_executions":
            queue = problem.details.get("queue")
            return "What is pending", visit.url("executions", handler=name, queue=queue, status="pending"), None
        case "open_changes":
            return "What changed", visit.url("changes"), None
        case "open_execution":
            return "Open run", link, None
        case None if subject.kind == "store":
            return "All checks", link, None
        case _:
            return "Open", link, None


_ID = re.compile(rf"({EXECUTION_ID.pattern.replace('(-', '(?:-')})")


def _linked(visit: Visit, words: str) -> Markup:
    """Words in which the ids of executions are short links."""
    parts = [
        Markup('<a class="mono" href="{}" title="{}">{}</a>').format(visit.url("executions", part), part, part[-8:])
        if place % 2
        else escape(part)
        for place, part in enumerate(_ID.split(words))
    ]
    return Markup("").join(parts)


def _evidence(visit: Visit, problem: Problem) -> Markup:
    """The evidence, in which the time that a job was due is one of the viewer's zone. The tooltip has the job's."""
    due, tz = problem.details.get("due"), problem.details.get("tz")
    if due is None or tz is None or problem.since is None:
        return _linked(visit, problem.evidence)
    before, _, after = problem.evidence.partition(due)
    shown = format.clock(problem.since, visit.zone, visit.now, seconds=False)
    at = format.time_element(problem.since, shown, visit.zone, also=known_zone(tz))
    return _linked(visit, before) + at + _linked(visit, after)


# --- charts


def outcome_chart(visit: Visit, series: ActivitySeries) -> Markup:
    """Completed and failed executions over time."""
    points = _bars(series)
    labels = _labels(visit, points)
    shown = [
        charts.Series("completed", "ok", [point.completed for point in points]),
        charts.Series("partial", "warn", [point.partial for point in points]),
        charts.Series("failed", "bad", [point.failed for point in points]),
    ]
    kept = [each for each in shown if each.name != "partial" or any(each.values)]
    title = f"Executions that ended, {SPANS[series.span]}"
    return charts.stacked_bars(labels, kept, title, unit=lambda count: format.plural(int(count), "run"))


def lateness_chart(visit: Visit, series: ActivitySeries) -> Markup:
    """How late scheduled runs started: 99 % of them within so many seconds."""
    points = _bars(series)
    values = [_seconds(point.late_at_most(0.99), series.bounds) for point in points]
    if not any(values):
        return Markup("")
    bars = charts.Series("late at most, 99 % of the scheduled runs", "run", values)
    title = f"How late scheduled runs began, {SPANS[series.span]}"
    labels = _labels(visit, points)
    return charts.stacked_bars(labels, [bars], title, unit=format.span, numbers=format.span, height=56, least=0.1)


def _bars(series: ActivitySeries) -> Sequence[ActivityPoint]:
    """The points as they are drawn: two of them in one bar if there are very many."""
    points = series.points
    if len(points) <= MOST_BARS:
        return points
    return [_sum(*points[place : place + 2]) for place in range(0, len(points), 2)]


def _sum(first: ActivityPoint, *others: ActivityPoint) -> ActivityPoint:
    for other in others:
        counts = {name: getattr(first, name) + getattr(other, name) for name in COUNTED}
        first = msgspec.structs.replace(first, lateness=tuple(map(add, first.lateness, other.lateness)), **counts)
    return first


def _seconds(late: float | None, bounds: Sequence[float]) -> float:
    return 0.0 if late is None else min(late, bounds[-1] * 2)


def _labels(visit: Visit, points: Sequence[ActivityPoint]) -> list[str]:
    return [format.moment(point.at, visit.zone, visit.now) for point in points]
