"""The ticks of a job over a stretch of time, as a scheduler without downtime creates them.

The scheduler's own rules (`core.rules.ticks`) decide about each tick. Between two changes of the clocks the ticks of a
plain job are laid out at once instead, from its cron fields or its period, and the rules check both ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from random import Random

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from ...model.calendars.calendar import Calendar
from ...model.errors import InvalidValue
from ...model.job import Job, JobSpec, encode_spec
from ...model.occurrences import write_overrides
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ...model.time.timeline import offset_at
from ...model.time.zones import known_zone
from ...model.triggers import AnyOf, Every, Excluding, Spread, Trigger
from ...model.triggers.wall_clock import CalendarTrigger
from ...model.values.ids import random_id
from ..rules import job_commands, ticks
from ..rules.occurrences import with_occurrences
from ..rules.opening_hours import NONE, open_hours
from .clock_changes import changes_between


def skips_by_hours(job: Job) -> bool:
    """Whether the hours only skip ticks: then the ticks are laid out without hours, and filtered. Jobs that wait for
    the opening, have a fixed delay or moved occurrences are decided tick by tick."""
    delayed = job.trigger is not None and job.trigger.fixed_delay
    return job.hours is not None and job.spec.outside == "skip" and not delayed and not job.occurrences


def without_hours(job: Job) -> Job:
    return job.with_changes(declared=encode_spec(msgspec.structs.replace(job.spec, hours=None)), overrides="{}")


def within_hours(job: Job, ticks: array[int], calendars: Mapping[str, Calendar]) -> array[int]:
    hours, found = open_hours(job, calendars), array("q")
    if hours is None or not ticks:
        return ticks
    for stretch in hours.stretches(to_datetime(ticks[0]), to_datetime(ticks[-1] + 1)):
        if stretch.open:
            begin, end = (bisect_left(ticks, to_micros(edge)) for edge in (stretch.begin, stretch.end))
            found.extend(ticks[begin:end])
    return found


HOUR: Micros = 3_600 * SECOND
DAY: Micros = 24 * HOUR
MOST_RUNS = 20_000_000
AT_ONCE = 1_000_000
WITHOUT_EFFECT = frozenset(
    (
        *("handler", "trigger", "tz", "params", "queue", "priority", "max_attempts", "retry", "timeout"),
        "run_timeout",
        *("non_retryable", "overlap", "overlap_limit", "missed", "missed_while_paused", "grace", "window"),
        *("enabled", "retention", "description", "metadata", "owner", "tags", "search", "trigger_role", "ping"),
        *("interval_type", "limits", "weights", "tenants", "continue_on_failure", "feeds"),
        *("tenant_concurrency", "tenant_max_attempts", "tenant_retry"),
        *("isolation", "max_cpu", "max_memory", "max_address_space"),
    )
)
"""Fields of a job that do not change its ticks. A job that uses any other field is decided tick by tick."""

_EPOCH = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


def planned(name: str, spec: JobSpec, begin: Micros, chance: Random, stored: Job | None = None) -> Job:
    """The job as it is when first declared at `begin`; a tick at `begin` itself counts. An interval without a start
    counts from `begin`, or as in the `stored` job if single occurrences of that were skipped or moved."""
    new = Job(name=name, id=random_id(begin, chance), declared=encode_spec(spec), anchor=begin, created=begin)
    if stored is not None and stored.spec.trigger == spec.trigger:
        ahead = (each for each in stored.occurrences if max(each.tick, each.due) >= begin)
        known = tuple(replace(each, done=each.done or each.due < begin) for each in ahead)
        excepted = with_occurrences(new.with_changes(anchor=stored.anchor), known)
        return excepted.with_changes(next_run=ticks.first_run(_plan(excepted), begin - 1))
    counts_from_now = new.trigger != new.with_changes(anchor=begin + DAY).trigger
    write = job_commands.declare(None, new, begin if counts_from_now else begin - 1)
    assert write is not None
    return write.job


def ticks_of(
    job: Job,
    begin: Micros,
    end: Micros,
    duration: Micros,
    chance: Random,
    calendars: Mapping[str, Calendar] = NONE,
    most: int = 0,
) -> array[int]:
    """Every run before `end`, at its tick; a tick of the past that is caught up, at `begin`; one that waits for the
    hours of its job, at their opening. `duration` is how long a run takes, for jobs with a fixed delay. With `most`,
    only so many of the first ticks are looked at."""
    if skips_by_hours(job):
        every_tick = ticks_of(without_hours(job), begin, end, duration, chance, most=most)
        return within_hours(job, every_tick, calendars)
    found = array("q")
    try:
        for some in _Walk(job, begin, end, duration, chance, calendars, most).stretches():
            if most and len(found) + len(some) >= most:
                found.extend(some[: most - len(found)])
                break
            _check_count(len(found) + len(some))
            for first in range(0, len(some), AT_ONCE):  # in parts, so that Ctrl-C works in between
                found.extend(some[first : first + AT_ONCE])
    except _TooMany:
        allowed, remedy = f"at most {MOST_RUNS:,} runs of a job", "Shorten the time, or choose jobs with --job"
        raise InvalidValue("--to", to_datetime(end).isoformat(), allowed, remedy) from None
    return found


class _TooMany(Exception):
    """A job has more runs than a forecast can hold."""


def _check_count(count: int) -> None:
    """Called before ticks are laid out, so that a refusal takes neither time nor memory."""
    if count > MOST_RUNS:
        raise _TooMany


class _Walk:
    def __init__(
        self,
        job: Job,
        begin: Micros,
        end: Micros,
        duration: Micros,
        chance: Random,
        calendars: Mapping[str, Calendar],
        most: int,
    ) -> None:
        self._calendars = calendars
        self._begin, self._end, self._duration, self._chance = begin, end, duration, chance
        self._job = _without_payload(job)
        self._plain = is_plain(job.spec)
        self._reach = end - begin
        """How far ticks are laid out at once. Where only some are wanted, it grows while there are fewer."""
        if most and job.trigger is not None:
            self._reach = max(HOUR, most * DAY // max(1, _on_full_days(job.trigger)))

    def stretches(self) -> Iterator[list[Micros] | range]:
        if self._plain and self._job.trigger is not None:
            _check_count(_at_least(self._job.trigger, self._begin, self._end))
        while (at := self._job.due) is not None and at < self._end:
            exceptional = any(min(each.tick, each.due) <= at for each in self._job.occurrences)
            made = self._decide(at)
            laid_out = self._laid_out(at) if self._plain and not exceptional else None
            if laid_out is None or len(laid_out) < 3:
                self._reach *= 2
                yield made
                continue
            if made != [at] or [*laid_out[:2]] != [at, self._job.due]:
                self._plain = False  # the rules disagree, so they decide about every tick from here on
                yield made
                continue
            self._reach *= 2
            yield laid_out[:-1]
            # the rules decide about the last one again, and about what follows it
            self._job = self._job.with_changes(next_run=laid_out[-1], last_tick=laid_out[-2])

    def _decide(self, at: Micros) -> list[Micros]:
        """What the scheduler makes of the next tick, at `begin` if the tick was before it."""
        now = max(at, self._begin)
        write = ticks.materialise(self._job, now, self._chance, self._calendars)
        self._job = write.job
        trigger = self._job.trigger
        if trigger is not None and trigger.fixed_delay:
            ran = max((run.due for run in write.executions), default=now)
            following = ticks.after_delay(self._job, max(now, ran) + self._duration)
            self._job = self._job if following is None else following.job
        runs = [max(run.due, self._begin) for run in write.executions if not run.state.final]
        return [at for at in runs if at < self._end]

    def _laid_out(self, begin: Micros) -> list[Micros] | range | None:
        """The ticks from `begin` to the next change of a clock; None when one changes within a day."""
        trigger = self._job.trigger
        assert trigger is not None
        end = min((self._end, begin + self._reach, *(min(each.tick, each.due) for each in self._job.occurrences)))
        for zone in _zones(trigger):
            for change in changes_between(zone, begin - DAY, end + DAY)[:1]:
                if to_micros(change.at) < begin + DAY:
                    return None
                end = min(end, to_micros(change.at) - DAY)
        return _in_steady_time(trigger, begin, end)


def _without_payload(job: Job) -> Job:
    """Its ticks do not depend on its parameters, which the rules would encode for each of them."""
    if not job.spec.params and not job.spec.metadata:
        return job
    lean = replace(job.spec, params={}, metadata={})
    return job.with_changes(declared=encode_spec(lean), overrides=write_overrides({}, job.occurrences))


def _plan(job: Job) -> Trigger:
    assert job.plan is not None, "a stored job with exceptions has a schedule"
    return job.plan


def is_plain(spec: JobSpec) -> bool:
    """Whether its ticks follow from its trigger alone, so that many of them are laid out at once."""
    plain = JobSpec(handler=spec.handler)
    unknown = (name for name in spec.__struct_fields__ if name not in WITHOUT_EFFECT)
    return all(getattr(spec, name) == getattr(plain, name) for name in unknown)


def _zones(trigger: Trigger) -> set[tzinfo]:
    """The zones whose clocks it follows."""
    own = {known_zone(trigger.tz)} if isinstance(trigger, CalendarTrigger | Excluding) else set()
    parts = [*getattr(trigger, "triggers", ()), *([trigger.base] if isinstance(trigger, Excluding | Spread) else [])]
    return own.union(*(_zones(part) for part in parts))


# --- stretches in which no clock changes ----------------------------------------------------------------------------


def _in_steady_time(trigger: Trigger, begin: Micros, end: Micros) -> list[Micros] | range | None:
    """The ticks in [begin, end); None for a trigger that must be decided tick by tick."""
    if type(trigger) is Every and not trigger.fixed_delay:
        step = seconds_to_micros(trigger.seconds)
        if step != trigger.seconds * SECOND:
            return None
        _check_count(len(range(begin, end, step)))
        return range(begin, end, step)
    if isinstance(trigger, CalendarTrigger):
        return _calendar(trigger, begin, end)
    if type(trigger) is AnyOf:
        return _union([_from(part, begin, end) for part in trigger.triggers])
    if type(trigger) is Excluding and set(trigger.__struct_fields__) == {"base", "dates", "triggers", "tz"}:
        return _without(trigger, begin, end)
    if type(trigger) is Spread:
        return _spread(trigger, begin, end)
    return None


def _from(trigger: Trigger, begin: Micros, end: Micros) -> list[Micros] | range | None:
    """As above, for a trigger that need not have a tick at `begin`."""
    first = trigger.next_after(to_datetime(begin) - _MICROSECOND)
    return [] if first is None else _in_steady_time(trigger, to_micros(first), end)


def _union(rows: list[list[Micros] | range | None]) -> list[Micros] | None:
    known = [row for row in rows if row is not None]
    _check_count(sum(map(len, known)))
    return sorted(set().union(*known)) if len(known) == len(rows) else None


def _without(trigger: Excluding, begin: Micros, end: Micros) -> list[Micros] | None:
    base = _from(trigger.base, begin, end)
    excluded = _union([_from(part, begin, end) for part in trigger.triggers])
    if base is None or excluded is None:
        return None
    offset, at_once = _offset(trigger.tz, begin), frozenset(excluded)
    days = frozenset(day.toordinal() - _EPOCH for day in trigger.dates)
    return [tick for tick in base if tick not in at_once and (tick + offset) // DAY not in days]


def _spread(trigger: Spread, begin: Micros, end: Micros) -> list[Micros] | None:
    """The shift of a tick depends on the next one, so the last of the stretch is left to the rules."""
    before = trigger.base.previous(to_datetime(begin))
    if before is None or begin - to_micros(before) >= DAY:
        return None
    base = _in_steady_time(trigger.base, to_micros(before), end)
    if base is None:
        return None
    same_share = None if trigger.each_tick else trigger._share(before)
    laid_out = []
    for at, following in pairwise(base):
        share = trigger._share(to_datetime(at)) if same_share is None else same_share
        laid_out.append(at + int(share * min(trigger.seconds, (following - at) / SECOND) * 1000) * 1000)
    return laid_out[bisect_right(laid_out, begin - 1) : bisect_right(laid_out, end - 1)]


def _at_least(trigger: Trigger, begin: Micros, end: Micros) -> int:
    """A lower bound of the number of ticks, without the first and last day and the hours in which clocks change. Zero
    where it is not known."""
    if type(trigger) is Every and not trigger.fixed_delay:
        first = begin if trigger.start is None else max(begin, to_micros(trigger.start))
        return int((end - first) / (trigger.seconds * SECOND))
    if type(trigger) is AnyOf:
        return max(_at_least(part, begin, end) for part in trigger.triggers)
    found = _midnights(trigger, begin, end) if isinstance(trigger, CalendarTrigger) else None
    return 0 if found is None else int((len(found[0]) - 2) * len(found[1]) * 0.99)


def _on_full_days(trigger: Trigger) -> int:
    """How often it ticks on a day on which it ticks all the time; 0 where that is not known."""
    if type(trigger) is Every and not trigger.fixed_delay:
        return int(86_400 / trigger.seconds)
    if type(trigger) is AnyOf:
        return sum(map(_on_full_days, trigger.triggers))
    if isinstance(trigger, Excluding | Spread):
        return _on_full_days(trigger.base)
    rules = trigger.rules() if isinstance(trigger, CalendarTrigger) else ()
    return sum(len(pattern[0]) for each in rules if (pattern := _pattern(each)) is not None)


def _midnights(trigger: CalendarTrigger, begin: Micros, end: Micros) -> tuple[list[Micros], list[Micros]] | None:
    """The midnights of the days on which it ticks, by the offset at `begin`, and its times of day."""
    rules = trigger.rules()
    pattern = _pattern(rules[0]) if len(rules) == 1 else None
    if pattern is None:
        return None
    times, days, months, weekdays = pattern
    offset = _offset(trigger.tz, begin)
    first, last = (begin + offset) // DAY, (end + offset) // DAY
    return [day * DAY - offset for day in _matching_days(days, months, weekdays, first, last)], times


def _calendar(trigger: CalendarTrigger, begin: Micros, end: Micros) -> list[Micros] | None:
    found = _midnights(trigger, begin, end)
    if found is None:
        return None
    midnights, times = found
    _check_count(len(midnights) * len(times))
    return [
        midnight + time
        for midnight in midnights
        for time in times[bisect_left(times, begin - midnight) : bisect_left(times, end - midnight)]
    ]


def _offset(zone: str | None, at: Micros) -> Micros:
    return offset_at(known_zone(zone), to_datetime(at).replace(tzinfo=None)) // _MICROSECOND


@lru_cache(maxsize=8192)
def _pattern(rule: str) -> tuple[list[Micros], str, str, str] | None:
    """The times of day of a cron rule, and its fields for days, months and weekdays."""
    simulator = _simulator(rule)
    if simulator is None:
        return None
    seconds = [
        hour * 3600 + minute * 60 + second
        for hour in simulator.hours
        for minute in simulator.minutes
        for second in simulator.seconds
    ]
    days, months, weekdays = simulator.parts[3:6]
    return sorted(time * SECOND for time in seconds), days, months, weekdays


@lru_cache(maxsize=1024)
def _matching_days(days: str, months: str, weekdays: str, first: int, last: int) -> list[int]:
    """The days, counted from 1970, on which such a rule runs."""
    simulator = _simulator(f"0 0 0 {days} {months} {weekdays}")
    assert simulator is not None
    dates = (date.fromordinal(_EPOCH + day) for day in range(first, last + 1))
    return [each.toordinal() - _EPOCH for each in dates if each.month in simulator.months and simulator.match_day(each)]


def _simulator(rule: str) -> CronSim | None:
    try:
        return CronSim(rule.replace("?", "*"), datetime(2000, 1, 1))
    except CronSimError:  # a spelling that only Mainspring knows: the rules decide
        return None
