"""What ran and what will run, side by side: bars from some hours back to as many hours ahead, in rows by job, queue or
tenant.

The past are the newest runs in the store, the future are the ticks of stored jobs from their own next run on, by the
rules of `forecast`. Both are bounded: neighbours become one bar with a count, and a job that ticks all the time is
followed for a while only. Jobs are forecast one after the other, so that none holds the event loop for long.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Literal, TypeAlias, get_args

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ...model.time.zones import known_zone, zone_name
from ...model.values.reading import choice
from ..filters.jobs import job_filter
from ..jobs.calendars import Calendars
from ..monitoring.single_flight import SingleFlight
from ..ports import Clock
from ..queries.job_lists import JobLists
from ..queries.queries import Queries
from ..views.execution import RunView
from ..views.job import JobView, job_of
from .clock_changes import changes_between, zone_of
from .forecast import MINUTE, ChangeForecast, JobForecast, change_forecasts, job_forecast
from .overlaps import SKIPPED
from .ticks import is_plain

By: TypeAlias = Literal["job", "queue", "tenant"]
HOURS = (6, 24, 72)
"""How many hours a timeline may show, each way."""

HOUR: Micros = 3_600 * SECOND
MOST_ROWS = 20
MOST_BARS = 28
"""How many bars a row has on each side, at most."""
FINEST = 500
"""Runs are one bar if less than this part of the shown time lies between them."""
RUNS = 150
"""How many of the newest runs of a job are read."""
SAMPLE, PAGE = 1_000, 250
"""How many of the newest executions are read for rows of queues and tenants, and how many at a time."""
FORECAST_JOBS = 100
"""How many jobs are forecast for rows of queues: those that run next."""
LAID_OUT, DECIDED = 1_000, 150
"""For how many ticks a job is followed: those that are laid out at once cost little, others 50 microseconds each."""
CROWD = 5
"""So many jobs that begin in the same minute are worth a note."""
MOST_CROWDS = 48
OFTEN = 5
"""Minutes: jobs that run more often than this never count as part of a crowd."""
BEFORE = 24 * HOUR
"""Executions that were created so long before the shown time may still run in it."""
MOST_KEPT = 50

PLANNED, OVERLAPS = "planned", "overlaps"


class Bar(msgspec.Struct, frozen=True):
    """One run, or several neighbours with the same outcome: the state of an execution; of the future `planned`, or
    `overlaps` if an earlier run would still be running. `id` is the execution, if the bar is one."""

    begin: Micros
    end: Micros
    outcome: str
    count: int = 1
    id: str | None = None


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """`counts` are the past runs by state, `planned` those to come: `goes_on` says that there are more than were
    counted. `known_since` is set if only the newest of the past runs are known. `usual` is how many seconds a run
    takes. `idle` says why a job has no runs to come: "paused", "disabled", "cancelled" or "on demand"."""

    name: str
    past: tuple[Bar, ...] = ()
    ahead: tuple[Bar, ...] = ()
    counts: Mapping[str, int] = {}
    planned: int = 0
    goes_on: bool = False
    next: Micros | None = None
    known_since: Micros | None = None
    usual: float | None = None
    overlaps: Mapping[str, int] = {}
    idle: str = ""


class Crowd(msgspec.Struct, frozen=True):
    """A minute in which several jobs begin."""

    at: Micros
    jobs: tuple[str, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """`after` is where the next page of rows begins. `changes` are clock changes in the zones of the jobs, with what
    they do to which of them; `forecast_jobs` says how many jobs the future was worked out for."""

    by: By
    begin: Micros
    now: Micros
    end: Micros
    rows: tuple[TimelineRow, ...]
    crowds: tuple[Crowd, ...] = ()
    changes: tuple[ChangeForecast, ...] = ()
    paused: int = 0
    forecast_jobs: int = 0
    known_since: Micros | None = None
    after: str | None = None


class Timelines:
    """Timelines of stored jobs. Callers that ask for the same one share it for a while."""

    def __init__(self, queries: Queries, job_lists: JobLists, calendars: Calendars, clock: Clock) -> None:
        self._queries, self._job_lists, self._calendars, self._clock = queries, job_lists, calendars, clock
        self._kept: OrderedDict[tuple[object, ...], SingleFlight[Timeline]] = OrderedDict()

    async def read(
        self,
        by: By = "job",
        hours: int = 24,
        *,
        search: str | None = None,
        queue: str | None = None,
        after: str | None = None,
    ) -> Timeline:
        """`hours` back and as many ahead. `search` is a part of the names of the rows, `queue` the queue of jobs or
        executions, `after` the name of the last row of the page before."""
        choice("by", by, get_args(By))
        if hours not in HOURS:
            raise InvalidValue("hours", hours, ", ".join(map(str, HOURS)))
        key = (by, hours, search, queue, after)
        if key not in self._kept:
            read = self._by_job if by == "job" else self._by_group
            self._kept[key] = SingleFlight(partial(read, *key), self._clock)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return await self._kept[key].get()

    async def _by_job(self, by: By, hours: int, search: str | None, queue: str | None, after: str | None) -> Timeline:
        wanted = job_filter({"search": search, "queue": queue})
        found = await self._job_lists.page(wanted, limit=MOST_ROWS, after=after)
        now = await self._queries.now()
        begin, end = now - hours * HOUR, now + hours * HOUR
        runs = await self._queries.newest_runs(found.jobs, RUNS, to_datetime(begin - BEFORE))
        future = await self._future(found.jobs, now, end)
        rows = []
        for view in found.jobs:
            rows.append(_job_row(view, runs[view.name], future, begin, now))
            await asyncio.sleep(0)
        return _timeline(by, begin, now, rows, future, found.jobs, found.after)

    async def _by_group(self, by: By, hours: int, search: str | None, queue: str | None, after: str | None) -> Timeline:
        now = await self._queries.now()
        begin, end = now - hours * HOUR, now + hours * HOUR
        views = list[JobView]()
        if by == "queue":
            wanted = job_filter({"queue": queue})
            views = (await self._job_lists.page(wanted, sort="next_run_at", limit=FORECAST_JOBS)).jobs
        future = await self._future(views, now, end)
        sample, known_since = await self._sample(begin, queue)
        groups = _grouped(by, sample, views)
        names = [name for name in sorted(groups) if (search or "").lower() in name.lower() and name > (after or "")]
        rows = []
        for name in names[:MOST_ROWS]:
            jobs = [view.name for view in views if view.queue == name]
            rows.append(_row(name, [_execution_bar(each, now) for each in groups[name]], jobs, future, begin))
            await asyncio.sleep(0)
        more = names[MOST_ROWS - 1] if len(names) > MOST_ROWS else None
        found = _timeline(by, begin, now, rows, future, views, more)
        return msgspec.structs.replace(found, known_since=known_since)

    async def _future(self, views: Sequence[JobView], now: Micros, end: Micros) -> Future:
        jobs = [job_of(view) for view in views]
        calendars, future = await self._calendars.of(jobs), Future(now, end)
        for view, job in zip(views, jobs, strict=True):
            if job.ticking:
                future.add(forecast_of(job, now, end, usual_seconds(view), calendars))
                await asyncio.sleep(0)
        return future

    async def _sample(self, begin: Micros, queue: str | None) -> tuple[list[ExecutionRow], Micros | None]:
        """The newest executions, and since when they are all there are."""
        since = to_datetime(begin - BEFORE)
        wanted = await self._queries.execution_lists.filter({"since": since, "queue": queue})
        found, cursor = list[ExecutionRow](), None
        while len(found) < SAMPLE:
            page = await self._queries.execution_lists.page(wanted, limit=PAGE, cursor=cursor)
            found += page.rows
            cursor = page.next
            if cursor is None:
                return found, None
            if page.searched_until is not None:
                return found, to_micros(page.searched_until)
        return found, found[-1].created


# --- the future


def usual_seconds(view: JobView) -> float | None:
    mean = view.stats.average_duration_ms
    return None if mean is None else mean / 1000


def forecast_of(
    job: Job, now: Micros, end: Micros, takes: float | None, calendars: Mapping[str, Calendar]
) -> JobForecast:
    """The runs of a stored job from its next one on. One that ticks all the time is followed for the next hour only."""
    most = LAID_OUT if is_plain(job.spec) else DECIDED
    if job.due is not None and job.due < now + HOUR:
        soon = job_forecast(job, now, min(end, now + HOUR), takes, Random(0), calendars, most)
        if len(soon.ticks) >= most:
            return soon
    return job_forecast(job, now, end, takes, Random(0), calendars, most)


def goes_on(found: JobForecast) -> bool:
    """Whether it has more ticks than it was followed for."""
    return len(found.ticks) >= (LAID_OUT if is_plain(found.job.spec) else DECIDED)


class Future:
    """The runs to come of some jobs: as bars by job, and by the minute in which they begin."""

    def __init__(self, now: Micros, end: Micros) -> None:
        self.now, self.end = now, end
        self.forecasts: dict[str, JobForecast] = {}
        self.bars: dict[str, tuple[Bar, ...]] = {}
        self._minutes: defaultdict[int, list[str]] = defaultdict(list)

    def add(self, found: JobForecast) -> None:
        takes, outcomes = seconds_to_micros(found.duration or 0.0), found.overlaps.outcomes
        bars = [Bar(at, at + takes, OVERLAPS if at in outcomes else PLANNED) for at in found.ticks]
        if goes_on(found):
            bars[-1] = msgspec.structs.replace(bars[-1], end=max(bars[-1].end, self.end))
        self.forecasts[found.name] = found
        self.bars[found.name] = merged(bars, (self.end - self.now) * 2 // FINEST)
        begun = list(dict.fromkeys(at // MINUTE for at in found.ticks if outcomes.get(at) != SKIPPED))
        if begun and (len(begun) - 1) * OFTEN > begun[-1] - begun[0]:
            return  # it begins all the time, whatever else does
        for minute in begun:
            self._minutes[minute].append(found.name)

    def crowds(self) -> tuple[Crowd, ...]:
        """The minutes in which the most jobs begin, in order of time."""
        crowded = [minute for minute, jobs in self._minutes.items() if len(jobs) >= CROWD]
        worst = sorted(crowded, key=lambda minute: (-len(self._minutes[minute]), minute))[:MOST_CROWDS]
        return tuple(Crowd(minute * MINUTE, tuple(self._minutes[minute])) for minute in sorted(worst))


# --- the past


def _job_bar(run: RunView, now: Micros) -> Bar:
    begun, ended = run.started_at or (run.finished_at if run.state.final else None), run.finished_at
    begin = to_micros(begun or run.start_at)
    return _bar(run.id, run.state, begin, None if ended is None else to_micros(ended), now)


def _execution_bar(row: ExecutionRow, now: Micros) -> Bar:
    begun = row.started or (row.finished if row.state.final else None)
    return _bar(row.id, row.state, begun or row.due, row.finished, now)


def _bar(id: str, state: State, begin: Micros, end: Micros | None, now: Micros) -> Bar:
    if state is State.PENDING and begin > now:
        return Bar(begin, begin, PLANNED, id=id)
    return Bar(begin, max(begin, now if end is None else end), state.value, id=id)


# --- rows


def merged(bars: Iterable[Bar], gap: Micros, most: int = MOST_BARS) -> tuple[Bar, ...]:
    """Neighbours with the same outcome that are closer than the gap as one bar. The gap grows until there are few
    enough bars.

    >>> bars = [Bar(0, 2, "completed", 1, "a"), Bar(3, 4, "completed", 1, "b"), Bar(3, 5, "failed", 1, "c")]
    >>> [(bar.begin, bar.end, bar.outcome, bar.count, bar.id) for bar in merged(bars, 2)]
    [(0, 4, 'completed', 2, None), (3, 5, 'failed', 1, 'c')]
    """
    sorted_bars = sorted(bars, key=lambda bar: bar.begin)
    while len(found := _joined(sorted_bars, gap)) > most:
        sorted_bars, gap = found, gap * 2
    return tuple(found)


def coarser(row: TimelineRow) -> TimelineRow:
    """The row with about half as many bars of the past."""
    return msgspec.structs.replace(row, past=merged(row.past, SECOND, max(len(row.past) // 2, len(State))))


def _joined(bars: Sequence[Bar], gap: Micros) -> list[Bar]:
    found: list[Bar] = []
    last: dict[str, int] = {}
    for bar in bars:
        place = last.get(bar.outcome)
        if place is None or bar.begin - found[place].end >= gap:
            last[bar.outcome] = len(found)
            found.append(bar)
            continue
        one = found[place]
        found[place] = Bar(one.begin, max(one.end, bar.end), bar.outcome, one.count + bar.count)
    return found


def _row(name: str, runs: Sequence[Bar], jobs: Sequence[str], future: Future, begin: Micros) -> TimelineRow:
    """What ran, and what the forecast of these jobs says. An execution that waits for its time is planned as well."""
    gap = (future.end - begin) // FINEST
    forecasts = [future.forecasts[job] for job in jobs if job in future.forecasts]
    past = [bar for bar in runs if bar.outcome != PLANNED and bar.end >= begin]
    waiting = [bar for bar in runs if bar.outcome == PLANNED and bar.begin < future.end]
    coming = [*waiting, *(bar for found in forecasts for bar in future.bars[found.name])]
    overlaps = Counter(outcome for found in forecasts for outcome in found.overlaps.outcomes.values())
    return TimelineRow(
        name=name,
        past=merged(past, gap),
        ahead=merged(coming, gap),
        counts=dict(Counter(bar.outcome for bar in past)),
        planned=sum(bar.count for bar in coming),
        goes_on=any(map(goes_on, forecasts)),
        next=min((bar.begin for bar in coming), default=None),
        overlaps=dict(overlaps),
    )


def _job_row(view: JobView, runs: Sequence[RunView], future: Future, begin: Micros, now: Micros) -> TimelineRow:
    bars = [_job_bar(run, now) for run in runs]
    oldest = min((bar.begin for bar in bars), default=begin)
    return msgspec.structs.replace(
        _row(view.name, bars, [view.name], future, begin),
        known_since=oldest if len(runs) == RUNS and oldest > begin else None,
        usual=usual_seconds(view),
        idle=_idle(job_of(view)),
    )


def _idle(job: Job) -> str:
    if job.trigger is None:
        return "paused" if job.paused is not None else "on demand"
    if job.paused is not None:
        return "paused"
    return "cancelled" if job.cancelled is not None else "" if job.spec.enabled else "disabled"


def _grouped(by: By, executions: Sequence[ExecutionRow], views: Sequence[JobView]) -> dict[str, list[ExecutionRow]]:
    found: dict[str, list[ExecutionRow]] = {view.queue: [] for view in views} if by == "queue" else {}
    for each in executions:
        name = each.queue if by == "queue" else each.tenant
        if name is not None:
            found.setdefault(name, []).append(each)
    return found


def _timeline(
    by: By,
    begin: Micros,
    now: Micros,
    rows: Sequence[TimelineRow],
    future: Future,
    views: Sequence[JobView],
    after: str | None,
) -> Timeline:
    found = list(future.forecasts.values())
    return Timeline(
        by=by,
        begin=begin,
        now=now,
        end=future.end,
        rows=tuple(rows),
        crowds=future.crowds(),
        changes=(*_past_changes(found, begin, now), *change_forecasts(found, now, future.end)),
        paused=sum(job_of(view).trigger is not None and view.is_paused for view in views),
        forecast_jobs=len(found),
        after=after,
    )


def _past_changes(forecasts: Iterable[JobForecast], begin: Micros, now: Micros) -> list[ChangeForecast]:
    """Clock changes that have happened. What they did is seen in the runs."""
    zones = {zone_of(found.job.trigger, found.job.spec.tz) for found in forecasts if found.job.trigger is not None}
    changes = [
        ChangeForecast(change, zone_name(known_zone(zone)), {})
        for zone in sorted(zones)
        for change in changes_between(known_zone(zone), begin, now)
    ]
    return sorted(changes, key=lambda each: (each.change.at, each.zone))
