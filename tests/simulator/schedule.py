"""Whether every tick of a job happened exactly once, from nothing but its trigger and what was recorded.

A job's life is cut into segments: from one planning (created, trigger changed, reactivated) to the next. Within a
segment the ticks that ran and the gaps of missed ones, in the order in which they were written, must follow each
other without a hole: each begins at the tick that the trigger gives after the end of the one before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec
from mainspring.model.policies import as_catch_up
from mainspring.model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from mainspring.model.triggers.base import Trigger

MANY = 100
"""So many ticks may run from one catching-up; beyond, even young ones are missed."""


class Item(msgspec.Struct, frozen=True):
    """What one tick, or one gap of ticks, left behind. The write it came with began at tick `opened` and ran
    `together` ticks."""

    first: Micros
    last: Micros
    kind: str
    decided: Micros
    spec: JobSpec
    paused: bool
    opened: Micros
    together: int
    count: int = 1
    exact: bool = True


class Segment(msgspec.Struct):
    """The ticks after `begin` are due; those up to `end` have to be accounted for, unless the job was cancelled."""

    trigger: Trigger
    begin: Micros
    items: list[Item] = []
    starts: list[Micros] = []
    end: Micros | None = None
    dropped: bool = False


class Schedule:
    """The segments of one incarnation of a job."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.segments: list[Segment] = []
        self._open: Segment | None = None

    def written(self, before: Job | None, after: Job, executions: tuple[ExecutionRow, ...]) -> str | None:
        """Take note of a write that won; returns what is wrong with it at first sight."""
        ticks = [each for each in executions if each.tick is not None]
        if ticks and (before is None or self._open is None):
            return f"job {self.name} ticked outside its schedule"
        if before is not None and self._open is not None:
            self._open.items += _items(before, ticks)
        if before is not None and after.cancelled is not None and before.cancelled is None:
            self._close(after.updated, dropped=True)
        elif before is None or _replanned(before, after):
            self._close(after.updated)
            self._plan(after)
        elif before.paused is not None and after.paused is None and self._open is not None:
            self._open.starts.append(after.updated)
        return None

    def removed(self, at: Micros) -> None:
        self._close(at, dropped=True)

    def _plan(self, job: Job) -> None:
        if job.trigger is not None and job.spec.enabled and job.cancelled is None:
            self._open = Segment(job.trigger, job.updated)
            self.segments.append(self._open)

    def _close(self, at: Micros, dropped: bool = False) -> None:
        if self._open is not None:
            self._open.end, self._open.dropped = at, dropped
        self._open = None

    # --- the verdict --------------------------------------------------------------------------------------
    def wrong(self, until: Micros, finished: frozenset[Micros]) -> str | None:
        """What is wrong with the ticks up to `until`; `finished` is when its runs ended."""
        seen: set[Micros] = set()
        for segment in self.segments:
            if segment.trigger.fixed_delay:
                wrong = _wrong_chain(segment, finished, seen)
            else:
                wrong = _wrong_ticks(segment, until, seen)
            if wrong is not None:
                return f"job {self.name}: {wrong}"
            for item in segment.items:
                if item.first in seen:
                    return f"job {self.name}: tick {_text(item.first)} twice"
                seen.update((item.first, item.last))
        return None


def _replanned(before: Job, after: Job) -> bool:
    def plan(job: Job) -> tuple[Any, ...]:
        return job.spec.trigger, job.spec.tz, job.spec.enabled, job.cancelled is None

    return plan(before) != plan(after)


def _items(job: Job, executions: list[ExecutionRow]) -> list[Item]:
    running = sum(1 for each in executions if each.trigger == "schedule" and each.reason != "missed")
    paused = [_in_pause(job, each) for each in executions]
    opened = {
        part: min(each.tick or 0 for each, here in zip(executions, paused, strict=True) if here is part)
        for part in set(paused)
    }
    return [_item(job, each, part, opened[part], running) for each, part in zip(executions, paused, strict=True)]


def _in_pause(job: Job, execution: ExecutionRow) -> bool:
    """A pause that was to end by itself covers what came before that, also where its end was found late."""
    return job.paused is not None and (job.resume is None or (execution.tick or 0) <= job.resume)


def _item(job: Job, execution: ExecutionRow, paused: bool, opened: Micros, together: int) -> Item:
    assert execution.tick is not None
    first = last = execution.tick
    kind, count, exact = execution.trigger, 1, True
    if execution.state is State.SKIPPED and execution.reason == "missed":
        words = execution.metadata
        first, last = (to_micros(datetime.fromisoformat(words[field])) for field in ("from", "to"))
        kind, count, exact = "gap", words["count"], words["exact"]
    return Item(first, last, kind, execution.created, job.spec, paused, opened, together, count, exact)


def _wrong_ticks(segment: Segment, until: Micros, seen: set[Micros]) -> str | None:
    trigger, at = segment.trigger, max(seen | {segment.begin})
    for item in segment.items:
        expected = _next(trigger, at, seen)
        if item.first != expected:
            what = "doubled or invented" if expected is None or item.first < expected else "lost"
            return f"{item.kind} at {_text(item.first)}, expected {_text(expected)}: a tick was {what}"
        wrong = _wrong_gap(trigger, item) if item.kind == "gap" else _wrong_run(trigger, item)
        if wrong is not None:
            return wrong
        at = item.last
    left = None if segment.dropped else _next(trigger, at, seen)
    end = until if segment.end is None else segment.end
    if left is not None and left <= end:
        return f"tick {_text(left)} was lost: nothing is recorded of it by {_text(end)}"
    return None


def _next(trigger: Trigger, after: Micros, seen: set[Micros]) -> Micros | None:
    """The tick after that instant. A single instant in the past is due too, unless the job has been past it."""
    upcoming = trigger.next_after(to_datetime(after))
    if upcoming is not None:
        return to_micros(upcoming)
    only = trigger.only_tick_micros()
    return None if only is None or only == after or only <= max(seen, default=only - 1) else only


def _wrong_gap(trigger: Trigger, gap: Item) -> str | None:
    last = trigger.previous(to_datetime(gap.last))
    if last is None or to_micros(last) != gap.last:
        return f"gap ends at {_text(gap.last)}, which is no tick"
    count, exact = trigger.count_between(to_datetime(gap.first) - timedelta(microseconds=1), to_datetime(gap.last))
    if gap.exact and (count, exact) != (gap.count, True):
        return f"gap from {_text(gap.first)} to {_text(gap.last)} counts {gap.count} ticks instead of {count}"
    if not gap.paused and gap.together < MANY and gap.decided - gap.last <= _grace(trigger, gap):
        return f"tick {_text(gap.last)} was given up within its grace, at {_text(gap.decided)}"
    return None


def _wrong_run(trigger: Trigger, item: Item) -> str | None:
    late = item.decided - item.first
    if late < 0:
        return f"tick {_text(item.first)} ran early, at {_text(item.decided)}"
    if item.kind == "schedule" and late > _grace(trigger, item):
        return f"tick {_text(item.first)} ran {late / SECOND} s late, beyond its grace"
    rule = item.spec.missed_while_paused if item.paused else item.spec.missed
    if item.kind == "catch_up" and as_catch_up(rule).rule == "skip":
        return f"tick {_text(item.first)} was caught up though missed ones are skipped"
    return None


def _grace(trigger: Trigger, item: Item) -> Micros:
    if item.spec.grace is not None:
        return seconds_to_micros(item.spec.grace)
    period = trigger.period(to_datetime(item.opened))
    return seconds_to_micros(60.0 if period is None else min(period, 60.0))


def _wrong_chain(segment: Segment, finished: frozenset[Micros], seen: set[Micros]) -> str | None:
    """A fixed delay: each tick is one period after a planning, after the end of a pause, or after the end of a run.

    Planning may have been slow: then it counts from the ticks that were `seen` before.
    """
    origins = {segment.begin, *segment.starts} | finished | seen
    ticks = {_next(segment.trigger, origin, set()) for origin in origins}
    for item in segment.items:
        if item.kind != "schedule":
            return f"a fixed delay with a {item.kind} at {_text(item.first)}"
        if item.first not in ticks:
            return f"tick {_text(item.first)} follows from no run that ended"
    return None


def _text(at: Micros | None) -> str:
    return "no tick" if at is None else to_datetime(at).strftime("%d %H:%M:%S.%f")
