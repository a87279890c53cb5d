"""The schedule of an application over a stretch of time: all its runs, what affects them, and their totals."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, repeat
from random import Random
from typing import NamedTuple

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.job import Job, JobSpec
from ...model.occurrences import Occurrence
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime
from ...model.time.zones import known_zone, zone_name
from ...model.triggers.clock_changes import ClockChange
from ..rules.opening_hours import NONE
from .clock_changes import changes_between, left_out, notes_of, zone_of
from .overlaps import SKIPPED, Overlaps, overlaps
from .ticks import planned, ticks_of

MINUTE = 60 * SECOND


class ForecastRun(NamedTuple):
    at: Micros
    job: str
    local: datetime
    outcome: str
    note: str


class JobForecast(msgspec.Struct):
    """One job: its ticks in order, and notes about some of them."""

    job: Job
    zone: str
    ticks: array[int]
    overlaps: Overlaps
    duration: float | None
    notes: dict[Micros, str]
    exceptions: tuple[Occurrence, ...] = ()
    """Single occurrences that are skipped, or moved to a time within the forecast."""

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def runs(self) -> int:
        return len(self.ticks) - self.skipped

    @property
    def skipped(self) -> int:
        return self.overlaps.count(SKIPPED)

    def run(self, at: Micros) -> ForecastRun:
        """What becomes of this tick."""
        local = to_datetime(at).astimezone(known_zone(self.zone))
        return ForecastRun(at, self.name, local, self.overlaps.outcomes.get(at, "runs"), self.notes.get(at, ""))

    def runs_in_order(self) -> Iterator[ForecastRun]:
        return map(self.run, self.ticks)


class Hour(NamedTuple):
    """An hour of the day: how many runs begin in it, in all and on the busiest day."""

    runs: int
    most: int


class ChangeForecast(NamedTuple):
    """A change of the clocks of a zone, with the jobs it affects and how."""

    change: ClockChange
    zone: str
    jobs: dict[str, str]


class Forecast(msgspec.Struct):
    begin: Micros
    end: Micros
    zone: str
    jobs: list[JobForecast] = []
    on_demand: list[str] = []
    """Jobs without a trigger, or not enabled."""
    changes: list[ChangeForecast] = []
    by_minute: Counter[int] = msgspec.field(default_factory=Counter)

    def add(self, job: JobForecast) -> None:
        """Add a job, and count in which minutes its runs begin."""
        self.jobs.append(job)
        outcomes = job.overlaps.outcomes if job.skipped else {}
        self.by_minute.update([at // MINUTE for at in job.ticks if outcomes.get(at) != SKIPPED])

    @property
    def runs(self) -> int:
        return sum(job.runs for job in self.jobs)

    def runs_in_order(self) -> Iterator[ForecastRun]:
        return heapq.merge(*(job.runs_in_order() for job in self.jobs))

    def page(self, offset: int, limit: int) -> list[ForecastRun]:
        """Some of the runs in order. Those before are only counted."""
        ticks = heapq.merge(*(zip(job.ticks, repeat(place)) for place, job in enumerate(self.jobs)))
        return [self.jobs[place].run(at) for at, place in islice(ticks, offset, offset + limit)]

    def busiest(self, minutes: int) -> tuple[datetime, int] | None:
        """The busiest stretch that begins at a multiple of so many minutes: when, and its number of runs."""
        counts = self.by_minute if minutes == 1 else self._in_steps_of(minutes)
        if not counts:
            return None
        most = max(counts.values())
        place = min(place for place, count in counts.items() if count == most)
        return to_datetime(place * minutes * MINUTE), most

    def hours(self) -> list[Hour]:
        """By hour of the day in the zone of this forecast. Quarters are counted: no zone's offset is finer."""
        where, runs, by_day = known_zone(self.zone), [0] * 24, Counter[tuple[int, int]]()
        for quarter, count in self._in_steps_of(15).items():
            local = to_datetime(quarter * 15 * MINUTE).astimezone(where)
            runs[local.hour] += count
            by_day[local.hour, local.toordinal()] += count
        most = [0] * 24
        for (hour, _), count in by_day.items():
            most[hour] = max(most[hour], count)
        return [Hour(*each) for each in zip(runs, most, strict=True)]

    def _in_steps_of(self, minutes: int) -> Counter[int]:
        steps: Counter[int] = Counter()
        for minute, count in self.by_minute.items():
            steps[minute // minutes] += count
        return steps


def forecast(
    specs: Sequence[tuple[str, JobSpec]],
    begin: Micros,
    end: Micros,
    zone: str,
    durations: Mapping[str, float],
    excepted: Mapping[str, Job] | None = None,
    calendars: Mapping[str, Calendar] = NONE,
) -> Forecast:
    """Simulate these jobs as if their application were deployed at `begin` and nothing failed. `excepted` are stored
    jobs with single occurrences that were skipped or moved, `calendars` those that hours may name."""
    chance = Random(0)
    jobs, on_demand = list[JobForecast](), list[str]()
    for name, spec in specs:
        job = planned(name, spec, begin, chance, (excepted or {}).get(name))
        if job.ticking:
            jobs.append(job_forecast(job, begin, end, durations.get(name), chance, calendars))
        else:
            on_demand.append(name)
    found = Forecast(begin=begin, end=end, zone=zone, on_demand=on_demand, changes=change_forecasts(jobs, begin, end))
    for each in jobs:
        found.add(each)
    return found


def job_forecast(
    job: Job,
    begin: Micros,
    end: Micros,
    duration: float | None,
    chance: Random,
    calendars: Mapping[str, Calendar],
    most: int = 0,
) -> JobForecast:
    """The runs of a job that ticks, from its next run on; with `most`, up to so many of them."""
    trigger, takes = job.trigger, seconds_to_micros(duration or 0.0)
    assert trigger is not None, "a job that ticks has a trigger"
    ticks = ticks_of(job, begin, end, takes, chance, calendars, most)
    zone, notes = zone_of(trigger, job.spec.tz), dict[Micros, str]()
    for change in changes_between(known_zone(zone), begin, end):
        notes |= notes_of(trigger, known_zone(zone), change, ticks)
    exceptions = tuple(each for each in job.occurrences if not each.done and begin <= each.due < end)
    notes |= {each.due: f"moved from {_local(each.tick, zone)}" for each in exceptions if each.to is not None}
    return JobForecast(
        job=job,
        zone=zone,
        ticks=ticks,
        overlaps=overlaps(job, ticks, takes),
        duration=duration,
        notes=notes,
        exceptions=exceptions,
    )


def _local(at: Micros, zone: str) -> str:
    return f"{to_datetime(at).astimezone(known_zone(zone)):%a %Y-%m-%d %H:%M:%S}"


def change_forecasts(jobs: Sequence[JobForecast], begin: Micros, end: Micros) -> list[ChangeForecast]:
    """The clock changes in the zones of these jobs, with the jobs that each affects."""
    found: dict[tuple[ClockChange, str], dict[str, str]] = {}
    for job in jobs:
        zone, trigger = known_zone(job.zone), job.job.trigger
        assert trigger is not None
        for change in changes_between(zone, begin, end):
            touched = found.setdefault((change, zone_name(zone)), {})
            words = _words(notes_of(trigger, zone, change, job.ticks)) or left_out(trigger, zone, change, job.ticks)
            if words:
                touched[job.name] = words
    return [ChangeForecast(*which, found[which]) for which in sorted(found, key=lambda which: (which[0].at, which[1]))]


def _words(notes: Mapping[Micros, str]) -> str:
    """`2 runs in the repeated time` rather than the same note for each of them."""
    if not notes:
        return ""
    first = next(iter(notes.values()))
    if first.startswith("moved"):
        return first
    passes = [note.partition(" ")[0] for note in notes.values()]
    counted = [f"{passes.count(each)} on the {each} pass" for each in ("first", "second") if each in passes]
    return f"runs in the repeated time: {', '.join(counted)}"
