"""A job as people and programs see it: the row, its derived state, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.errors import MainspringError
from ...model.execution import ExecutionRow
from ...model.job import Job, JobState, JobStats, LiveCounts
from ...model.occurrences import Occurrence
from ...model.time.instants import Micros, maybe_datetime, to_datetime
from ..rules.job_commands import job_state, tag_of
from ..rules.opening_hours import NONE, Closing, closing, has_hours, next_open_run


class JobView(msgspec.Struct, frozen=True, dict=True):
    job: Job
    stats: JobStats
    live: LiveCounts
    orphaned: bool = False
    calendars: Mapping[str, Calendar] = NONE
    seen: Micros = 0
    """The store's time when it was read; only asked for where the job has hours."""
    alive: ExecutionRow | None = None
    """Its newest execution, if that has not ended; lists of all jobs leave it out."""
    dependents: tuple[str, ...] = ()
    """The jobs that come after it."""

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def tag(self) -> str:
        """Which state of which incarnation this is: another one with every write."""
        return tag_of(self.job)

    @property
    def handler(self) -> str:
        return self.job.spec.handler

    @property
    def queue(self) -> str:
        return self.job.spec.queue

    @property
    def params(self) -> dict[str, Any]:
        return self.job.spec.params

    @property
    def metadata(self) -> dict[str, Any]:
        return self.job.spec.metadata

    @property
    def after(self) -> tuple[str, ...]:
        """The jobs that it comes after."""
        return self.job.spec.after

    @cached_property
    def state(self) -> JobState:
        return job_state(self.job, self.live, self.stats if self.stats.last_id else None)

    @property
    def schedule(self) -> str | None:
        """Cron-style text: `0 0 2 * * *`, `@every 30m`; None for a job that only runs on demand."""
        return self.job.trigger.expression() if self.job.trigger else None

    @property
    def description_of_schedule(self) -> str:
        """In words; of a job without one, what makes it run."""
        after = f"after {', '.join(self.after)}" if self.after else "on demand"
        return self.job.trigger.describe() if self.job.trigger else after

    @property
    def next_run_at(self) -> datetime | None:
        """When it runs next: for a job with hours, the next tick that they let through or its opening."""
        if not has_hours(self.job) or not self.job.ticking:
            return self.job.next_run_at
        moved = [each.to for each in self.job.occurrences if each.to is not None and not each.done]
        regular = next_open_run(self.job, self.calendars)
        return min((*map(to_datetime, moved), *(() if regular is None else (regular,))), default=None)

    @property
    def hours(self) -> str | None:
        """Its hours in words; None for a job that may always run."""
        return self.job.hours.describe() if has_hours(self.job) and self.job.hours is not None else None

    @cached_property
    def closing(self) -> Closing | None:
        """Until when its hours keep it from running, and by what; None while they do not."""
        return closing(self.job, self.calendars, self.seen) if has_hours(self.job) and self.job.ticking else None

    @property
    def last_run_at(self) -> datetime | None:
        return maybe_datetime(self.stats.last_started)

    @property
    def last_status(self) -> str | None:
        return self.stats.last_status

    @property
    def error_message(self) -> str | None:
        return self.stats.last_error

    @property
    def current_retry_count(self) -> int:
        """Failures of its newest execution."""
        return self.stats.last_failures if self.alive is None else self.alive.failures

    @property
    def started_at(self) -> datetime | None:
        """When its newest execution began; None while that waits for its first try."""
        return maybe_datetime(self.stats.last_started) if self.alive is None else self.alive.started_at

    @property
    def completed_at(self) -> datetime | None:
        """When its newest execution ended; None while that lives."""
        return maybe_datetime(self.stats.last_finished) if self.alive is None else None

    @property
    def is_paused(self) -> bool:
        return self.job.paused is not None

    @property
    def paused_at(self) -> datetime | None:
        return self.job.paused_at

    @property
    def paused_by(self) -> str | None:
        return self.job.paused_by

    @property
    def pause_note(self) -> str | None:
        return self.job.pause_note

    @property
    def resume_at(self) -> datetime | None:
        return self.job.resume_at

    @property
    def cancelled_at(self) -> datetime | None:
        return self.job.cancelled_at

    @property
    def overrides(self) -> dict[str, Any]:
        """What operators changed against the code."""
        return self.job.changed_fields

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Single occurrences that were skipped or moved and are yet to come, by their own time."""
        return tuple(each for each in self.job.occurrences if not each.done)

    @property
    def created_at(self) -> datetime:
        return self.job.created_at

    @property
    def updated_at(self) -> datetime:
        return self.job.updated_at


def with_dependents(views: list[JobView]) -> list[JobView]:
    """All jobs there are, each with those that come after it."""
    children: dict[str, list[str]] = {}
    for view in views:
        for parent in _after(view):
            children.setdefault(parent, []).append(view.name)
    if not children:
        return views
    return [
        msgspec.structs.replace(view, dependents=tuple(children[view.name])) if view.name in children else view
        for view in views
    ]


def _after(view: JobView) -> tuple[str, ...]:
    """Nothing for a job that this release cannot read: it is listed all the same."""
    try:
        return view.after
    except (MainspringError, msgspec.MsgspecError):
        return ()
