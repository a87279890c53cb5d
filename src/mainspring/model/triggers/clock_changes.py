"""The next changes of a zone's clock, and their effect on a trigger, in words.

The trigger itself gives its runs; this module only finds the wall-clock times that are skipped or repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain, islice
from typing import Literal, NamedTuple

from ..time.timeline import SECOND, Gap, Overlap, segments
from .base import utc
from .cron import rule
from .wall_clock import CalendarTrigger

YEARS_AHEAD = 10
MOST_TIMES = 1_000
_MOST_NAMED = 3
_WALL_CLOCK = {"gap": "no run", "overlap": "runs both times"}
_REPEATED: dict[Overlap, str] = {
    "first": "runs the first time (first)",
    "second": "runs the second time (second)",
    "both": "runs both times (both)",
}


class ClockChange(NamedTuple):
    """The instant at which the clock is changed, and its offset from UTC before and from then on."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def kind(self) -> Literal["gap", "overlap"]:
        """Whether wall-clock times are skipped or repeated."""
        return "gap" if self.after > self.before else "overlap"

    @property
    def size(self) -> timedelta:
        return abs(self.after - self.before)

    @property
    def shown_before(self) -> datetime:
        """What the clocks show, without a zone, when the change comes."""
        return self.at.replace(tzinfo=None) + self.before

    @property
    def shown_after(self) -> datetime:
        """What they show once they are changed."""
        return self.at.replace(tzinfo=None) + self.after

    @property
    def skipped_or_repeated(self) -> tuple[datetime, datetime]:
        """The naive wall-clock times [begin, end) that never come, or come twice."""
        return min(self.shown_before, self.shown_after), max(self.shown_before, self.shown_after)


class Effect(NamedTuple):
    """What a change does to a trigger: the wall-clock times it concerns, the runs around it, and both in words."""

    times: list[datetime]
    runs: list[datetime]
    words: str


def clock_changes(zone: tzinfo, after: datetime, until: datetime | None = None) -> Iterator[ClockChange]:
    """The changes later than `after` and before `until`; without that, those of the next ten years."""
    start = utc(after).replace(tzinfo=None)
    end = datetime.max if until is None else utc(until).replace(tzinfo=None)
    for year in range(start.year, min(start.year + YEARS_AHEAD if until is None else end.year, 9998) + 1):
        for segment in segments(zone, year):
            if start < segment.begin < end and segment.before != segment.offset:
                yield ClockChange(segment.begin.replace(tzinfo=UTC), segment.before, segment.offset)


def effect(trigger: CalendarTrigger, change: ClockChange) -> Effect:
    """What the change does to the trigger. `runs` are those from the size of the change before it to as much after."""
    times = _times(trigger, change)
    begin, end = change.at - change.size, change.at + change.size
    runs = list(trigger.ticks(begin - SECOND, end - SECOND, MOST_TIMES))
    return Effect(times, runs, _words(trigger, change, times))


def _times(trigger: CalendarTrigger, change: ClockChange) -> list[datetime]:
    """The skipped or repeated wall-clock times that the trigger names, in order."""
    begin, end = change.skipped_or_repeated
    return sorted(set(chain.from_iterable(_matches(text, begin, end) for text in trigger.rules())))[:MOST_TIMES]


def _matches(text: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    found = rule(text).after(begin - SECOND)
    for _ in range(MOST_TIMES):
        if found is None or found >= end:
            return
        yield found
        found = rule(text).after(found)


def _words(trigger: CalendarTrigger, change: ClockChange, times: list[datetime]) -> str:
    done = "skipped" if change.kind == "gap" else "repeated"
    if not times:
        return f"none of its times is {done}: nothing changes"
    wildcard = any(rule(text).wildcard for text in trigger.rules())
    gap, overlap = trigger.changes
    if wildcard:
        what = f"{_WALL_CLOCK[change.kind]}; it follows the wall clock, as its minute or hour starts with *"
    else:
        what = _skipped(times, change, gap) if change.kind == "gap" else _REPEATED[overlap]
    return f"{_named(times)} {'is' if len(times) == 1 else 'are'} {done}: {what}"


def _skipped(times: list[datetime], change: ClockChange, policy: Gap) -> str:
    if policy == "skip":
        return "no run (skip)"
    if policy == "shift":
        return f"runs at {_named([time + change.size for time in times])} (shift)"
    return f"one run at {_clock(change.skipped_or_repeated[1])}, the end of the gap (at_end)"


def _named(times: list[datetime]) -> str:
    """Some times by their clock: "02:00, 02:05, 02:10 and 9 more"."""
    clocks = ", ".join(_clock(time) for time in islice(times, _MOST_NAMED))
    more = len(times) - _MOST_NAMED
    return f"{clocks} and {more} more" if more > 0 else clocks


def _clock(time: datetime) -> str:
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"
