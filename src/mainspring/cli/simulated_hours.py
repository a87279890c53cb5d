"""Hours of jobs in a simulation. A job that skips what is outside its hours runs when it would run without them, and
they are open: so its ticks are laid out as those of any job, and then sorted by what its hours say."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping

import msgspec

from ..core.opening import open_hours
from ..model.calendars import Calendar
from ..model.instants import to_datetime, to_micros
from ..model.job import Job, encode_spec


def skips_by_hours(job: Job) -> bool:
    """Whether this is all that the hours do. What waits, counts from the end of a run or was moved by hand is decided
    tick by tick."""
    delayed = job.trigger is not None and job.trigger.fixed_delay
    return job.hours is not None and job.spec.outside == "skip" and not delayed and not job.occurrences


def without_hours(job: Job) -> Job:
    return job.with_changes(declared=encode_spec(msgspec.structs.replace(job.spec, hours=None)), overrides="{}")


def let_through(job: Job, ticks: array[int], calendars: Mapping[str, Calendar]) -> array[int]:
    hours, found = open_hours(job, calendars), array("q")
    if hours is None or not ticks:
        return ticks
    for stretch in hours.stretches(to_datetime(ticks[0]), to_datetime(ticks[-1] + 1)):
        if stretch.open:
            begin, end = (bisect_left(ticks, to_micros(edge)) for edge in (stretch.begin, stretch.end))
            found.extend(ticks[begin:end])
    return found
