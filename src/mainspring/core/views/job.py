"""`JobView` and `JobTotals`: what users hold of a job, its state, its plan and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.execution import ExecutionRow
from ...model.job import Job, JobState, JobStats, LiveCounts, Origin
from ...model.occurrences import Occurrence
from ...model.policies import Retry
from ...model.store.messages import NewestLive
from ...model.time.instants import Micros, maybe_datetime, to_datetime
from ...model.values.access import Role
from ..rules.job_commands import job_state, tag_of
from ..rules.job_roles import demanded_role, role_for
from ..rules.opening_hours import NONE, Closing, closing, has_hours, next_open_run


class Declarer(msgspec.Struct, frozen=True, kw_only=True):
    """An application that declares a job, with the code behind it: `module.function`."""

    application: str
    """The name of the application."""
    handler: str
    """The function behind the job, as `module.function`."""


class JobTotals:
    """How many executions of a job have ended in each state, including those that retention has deleted."""

    __slots__ = ("_stats",)

    def __init__(self, stats: JobStats) -> None:
        self._stats = stats

    def __repr__(self) -> str:
        return f"<JobTotals {self.total} ended, {self.completed} completed, {self.failed} failed>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobTotals) and self._stats == other._stats

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        """All that ended, without the skipped ones."""
        return self._stats.total

    @property
    def completed(self) -> int:
        """How many completed."""
        return self._stats.completed

    @property
    def partial(self) -> int:
        """How many completed for some of their tenants only."""
        return self._stats.partial

    @property
    def failed(self) -> int:
        """How many failed for good."""
        return self._stats.failed

    @property
    def cancelled(self) -> int:
        """How many were cancelled."""
        return self._stats.cancelled

    @property
    def skipped(self) -> int:
        """How many were skipped."""
        return self._stats.skipped

    @property
    def rescued(self) -> int:
        """How often an execution was taken back from a lost worker."""
        return self._stats.rescued

    @property
    def by_trigger(self) -> dict[str, int]:
        """How many ended, by "trigger:state", such as "schedule:completed"."""
        return dict(self._stats.by_trigger)

    @property
    def success_rate(self) -> float | None:
        """The part of those completed, partial and failed that completed; None before the first. Of a job with tenants,
        the execution of each tenant counts, and so does that of their parent."""
        return self._stats.success_rate

    @property
    def average_duration_ms(self) -> float | None:
        """The mean duration in milliseconds; None before the first."""
        return self._stats.average_duration_ms


class JobView(msgspec.Struct, frozen=True, dict=True):
    """A job as it was when it was read."""

    _job: Job
    _stats: JobStats
    live: LiveCounts
    """How many of its executions have not ended."""
    orphaned: bool = False
    """Whether code once declared it, and no running process declares it any more."""
    _calendars: Mapping[str, Calendar] = NONE
    _seen: Micros = 0  # the store's time when it was read; only asked for where the job has hours
    _newest_live: NewestLive | None = None  # lists of all jobs leave it out
    _own: Job | None = None  # the own job of its handler: the role that it demands holds here too
    dependents: tuple[str, ...] = ()
    """The jobs that run after this one."""
    conflict: tuple[Declarer, ...] = ()
    """The applications that declare this job with different code, if there are any."""

    def __repr__(self) -> str:
        return f"<JobView {self.name!r}: {self.state.value}>"

    # --- what it is ---------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """The name, which is also its id in the HTTP interface."""
        return self._job.name

    @property
    def tag(self) -> str:
        """Identifies this version of the job; it changes with every write."""
        return tag_of(self._job)

    @property
    def version(self) -> int:
        """Grows with every write."""
        return self._job.version

    @property
    def trigger_role(self) -> str | None:
        """The role that the job itself asks for; None if it asks for none."""
        return demanded_role(self._job, self._own)

    @property
    def required_role(self) -> Role:
        """The role that a caller needs to run, control or change the job."""
        return role_for(self._job, self._own)

    @property
    def origin(self) -> Origin:
        """Where it comes from: "code" or "api"."""
        return self._job.origin

    @property
    def handler(self) -> str:
        """The name of its handler."""
        return self._job.spec.handler

    @property
    def description(self) -> str:
        """What it does, in the words of its declaration."""
        return self._job.spec.description

    @property
    def queue(self) -> str:
        """The queue of its executions."""
        return self._job.spec.queue

    @property
    def priority(self) -> int:
        """The priority of its executions."""
        return self._job.spec.priority

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that its executions get. Secrets are not masked here."""
        return self._job.spec.params

    @property
    def secret(self) -> tuple[str, ...]:
        """Paths into the parameters whose values are shown nowhere but in `params` and `overrides`."""
        return self._job.spec.secret

    @property
    def metadata(self) -> dict[str, Any]:
        """Your own data from its declaration."""
        return self._job.spec.metadata

    @property
    def owner(self) -> str | None:
        """The team or person responsible for it."""
        return self._job.spec.owner

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the job."""
        return self._job.spec.tags

    @property
    def after(self) -> tuple[str, ...]:
        """The jobs that it runs after."""
        return self._job.spec.after

    @property
    def max_attempts(self) -> int:
        """How many attempts its executions may have."""
        return self._job.spec.max_attempts

    @property
    def retry(self) -> Retry:
        """How long its executions wait between attempts."""
        return self._job.spec.retry

    @property
    def timeout(self) -> float | None:
        """Seconds that an attempt may take."""
        return self._job.spec.timeout

    @property
    def overlap(self) -> str:
        """What happens when an execution is due while another one has not ended."""
        return self._job.spec.overlap

    @property
    def overrides(self) -> dict[str, Any]:
        """The options that operators changed."""
        return self._job.changed_fields

    # --- how it stands ------------------------------------------------------------------------------------
    @cached_property
    def state(self) -> JobState:
        """pending, scheduled, running, paused, completed, failed or cancelled."""
        return job_state(self._job, self.live, self._stats if self._stats.last_id else None)

    @property
    def _newest(self) -> NewestLive | None:
        """Its newest live execution, unless a newer one has ended."""
        newest = self._newest_live
        return None if newest is None or newest.id < self._stats.last_id else newest

    @property
    def stats(self) -> JobTotals:
        """How many of its executions ended in each state."""
        return JobTotals(self._stats)

    @property
    def last_status(self) -> str | None:
        """The state of its newest execution that has ended."""
        return self._stats.last_status

    @property
    def last_execution_id(self) -> str | None:
        """Its newest execution that has ended."""
        return self._stats.last_id or None

    @property
    def error_message(self) -> str | None:
        """The error of its newest execution that has ended."""
        return self._stats.last_error

    @property
    def current_retry_count(self) -> int:
        """How often its newest execution has failed."""
        return self._stats.last_failures if self._newest is None else self._newest.failures

    @property
    def last_run_at(self) -> datetime | None:
        """When its newest execution that has ended started."""
        return maybe_datetime(self._stats.last_started)

    @property
    def started_at(self) -> datetime | None:
        """When its newest execution started; None while that waits for its first attempt."""
        return maybe_datetime(self._stats.last_started if self._newest is None else self._newest.started)

    @property
    def completed_at(self) -> datetime | None:
        """When its newest execution ended; None while that has not ended."""
        return maybe_datetime(self._stats.last_finished) if self._newest is None else None

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._job.paused is not None

    @property
    def paused_at(self) -> datetime | None:
        """Since when it is paused."""
        return self._job.paused_at

    @property
    def paused_by(self) -> str | None:
        """Who paused it."""
        return self._job.paused_by

    @property
    def pause_note(self) -> str | None:
        """Why it is paused."""
        return self._job.pause_note

    @property
    def resume_at(self) -> datetime | None:
        """When its pause ends by itself."""
        return self._job.resume_at

    @property
    def cancelled_at(self) -> datetime | None:
        """When it was cancelled."""
        return self._job.cancelled_at

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return self._job.created_at

    @property
    def updated_at(self) -> datetime:
        """When it was last changed."""
        return self._job.updated_at

    # --- when it runs -------------------------------------------------------------------------------------
    @property
    def enabled(self) -> bool:
        """Whether its schedule is turned on."""
        return self._job.spec.enabled

    @property
    def schedule(self) -> str | None:
        """Cron-style text: `0 0 2 * * *`, `@every 30m`; None for a job that only runs on demand."""
        return self._job.trigger.expression() if self._job.trigger else None

    @property
    def description_of_schedule(self) -> str:
        """The schedule in words; of a job without one, what makes it run."""
        after = f"after {', '.join(self.after)}" if self.after else "on demand"
        return self._job.trigger.describe() if self._job.trigger else after

    @property
    def tz(self) -> str:
        """The time zone of its schedule."""
        return self._job.spec.tz

    @property
    def next_run_at(self) -> datetime | None:
        """When it runs next. For a job with `hours`, this is its next tick within them, or their next opening."""
        if not has_hours(self._job) or not self._job.ticking:
            return self._job.next_run_at
        moved = [each.to for each in self._job.occurrences if each.to is not None and not each.done]
        regular = next_open_run(self._job, self._calendars)
        return min((*map(to_datetime, moved), *(() if regular is None else (regular,))), default=None)

    @property
    def hours(self) -> str | None:
        """Its hours in words; None for a job that may always run."""
        return self._job.hours.describe() if has_hours(self._job) and self._job.hours is not None else None

    @cached_property
    def closing(self) -> Closing | None:
        """Until when its hours keep it from running, and by what; None while they do not."""
        return closing(self._job, self._calendars, self._seen) if has_hours(self._job) and self._job.ticking else None

    @property
    def occurrences(self) -> tuple[OccurrenceView, ...]:
        """Single occurrences that were skipped or moved and are yet to come, by their own time."""
        return tuple(occurrence_view(each) for each in self._job.occurrences if not each.done)


class OccurrenceView(msgspec.Struct, frozen=True):
    """One run of a schedule that was skipped or moved."""

    at: datetime
    """The time of the schedule."""
    moved_to: datetime | None
    """The time it was moved to; None if it is skipped."""
    by: str
    """Who did it."""


def occurrence_view(occurrence: Occurrence) -> OccurrenceView:
    return OccurrenceView(occurrence.at, occurrence.moved_to, occurrence.by)


def job_of(view: JobView) -> Job:
    """The stored row behind the view, for use inside Mainspring."""
    return view._job


def calendars_of(view: JobView) -> Mapping[str, Calendar]:
    """The calendars that its hours name, for use inside Mainspring."""
    return view._calendars


def stats_of(view: JobView) -> JobStats:
    """The stored statistics behind the view, for use inside Mainspring."""
    return view._stats


def with_new_execution(view: JobView, new: ExecutionRow) -> JobView:
    """The view with a pending execution that was added since it was read."""
    live = msgspec.structs.replace(view.live, pending=view.live.pending + 1)
    return msgspec.structs.replace(view, live=live, _newest_live=NewestLive(new.id, new.failures, new.started))


def with_dependents(views: list[JobView]) -> list[JobView]:
    """These views, which are of all jobs, each with the jobs that come after it."""
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
    return view.after if view._job.readable else ()
