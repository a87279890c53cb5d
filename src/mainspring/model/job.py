"""A job: a durable intention to run a handler, with its trigger, policy and control state."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from .calendars.hours import Hours, Outside, hours_of
from .defaults import ENQUEUED_ATTEMPTS, TENANT_ATTEMPTS
from .errors import InvalidValue, MainspringError
from .execution import State, encode_policy
from .labels import job_labels
from .limits import Limit
from .occurrences import FIELD, Occurrence, Without, read_occurrences
from .policies import CatchUp, FailedParent, FanOut, Isolation, MissedRule, Overlap, Retention, Retry, RunPolicy
from .time.instants import Micros, maybe_datetime, to_datetime
from .triggers import Trigger, decode_trigger
from .triggers.interval import IntervalType
from .values.access import highest_role
from .values.reading import zone

Origin: TypeAlias = Literal["code", "api"]
T = TypeVar("T")


class JobState(StrEnum):
    """The state of a job, derived from its schedule, its commands and its newest execution."""

    PENDING = "pending"
    """It has no next time: it waits for a worker, or has not run yet."""
    SCHEDULED = "scheduled"
    """It has a next run."""
    RUNNING = "running"
    """An execution of it runs."""
    PAUSED = "paused"
    """Somebody paused it; it has no ticks until it is resumed."""
    COMPLETED = "completed"
    """Its last run completed, and there is no next one."""
    FAILED = "failed"
    """Its last run failed, and there is no next one."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""


JobStatus: TypeAlias = (
    JobState | Literal["pending", "scheduled", "running", "paused", "completed", "failed", "cancelled"]
)
"""The state of a job, also by its name."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The specification of a job, from code or from an operator. Operators override single fields of declared jobs.

    Unknown fields are ignored: during a deploy a newer release may have stored them.
    """

    handler: str
    trigger: dict[str, Any] | None = None
    interval_type: IntervalType = "minutes"  # the unit in which the period of an `every` is shown
    tz: str = "UTC"
    params: dict[str, Any] = {}
    queue: str = "default"
    priority: int = 0
    max_attempts: int = ENQUEUED_ATTEMPTS
    retry: Retry = Retry("queue")
    timeout: float | None = None
    run_timeout: float | None = None
    non_retryable: tuple[str, ...] = ()
    overlap: Overlap = "allow"
    overlap_limit: int | None = None
    missed: MissedRule | CatchUp = "skip"
    missed_while_paused: MissedRule | CatchUp = "skip"
    grace: float | None = None
    window: str | dict[str, Any] | None = None
    hours: dict[str, Any] | None = None
    outside: Outside = "skip"
    enabled: bool = True
    retention: Retention = Retention()
    description: str = ""
    metadata: dict[str, Any] = {}
    owner: str | None = None
    tags: tuple[str, ...] = ()
    trigger_role: str | None = None
    search: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()  # also the paths that are secret by their declared types
    limits: tuple[Limit, ...] = ()
    weights: dict[str, int] = {}
    tenants: bool = False  # the registry knows who they are: see core.declaring.registry
    continue_on_failure: bool = True
    tenant_concurrency: int | None = None
    tenant_max_attempts: int = TENANT_ATTEMPTS
    tenant_retry: Retry = Retry("tenant")
    ping: dict[str, str] | None = None
    after: tuple[str, ...] = ()
    on_failed_parent: FailedParent = "skip"
    not_before: str | None = None
    isolation: Isolation | None = None  # None: a coroutine on the event loop, or a handler that is not known
    max_cpu: float | None = None
    max_memory: int | None = None
    max_address_space: int | None = None
    feeds: bool = False  # no option: set as soon as another job follows this one, and never reset

    @property
    def fan_out(self) -> FanOut | None:
        """How its tenants run; None without tenants."""
        if not self.tenants:
            return None
        return FanOut(
            max_attempts=self.tenant_max_attempts,
            retry=self.tenant_retry,
            concurrency=self.tenant_concurrency,
            continue_on_failure=self.continue_on_failure,
        )

    def run_policy(self) -> RunPolicy:
        """The part of the specification that is copied into each execution."""
        fixed_delay = self.trigger is not None and bool(decode_trigger(self.trigger).fixed_delay)
        return RunPolicy(
            max_attempts=self.max_attempts,
            retry=self.retry,
            timeout=self.timeout,
            run_timeout=self.run_timeout,
            non_retryable=self.non_retryable,
            overlap=self.overlap,
            follow_up=fixed_delay,
            keep_success=self.retention.keep_success,
            ping=tuple(sorted((self.ping or {}).items())),
            feeds=self.feeds,
            fan_out=self.fan_out,
            tz=self.tz,
            isolation="process" if self.isolation == "process" else None,
            max_cpu=self.max_cpu,
            max_memory=self.max_memory,
            max_address_space=self.max_address_space,
            search=self.search,
            secret=self.secret,
        )


class _kept_if_small(cached_property[T]):
    """A store, a cache or a list may hold many jobs whose specifications have many values."""

    def __get__(self, job: Any, owner: Any = None) -> T:  # type: ignore[override]  # never asked of the class
        return self.func(job) if _has_many(job.declared, job.overrides) else super().__get__(job, owner)


class Job(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One job row. `id` is the incarnation: a job that is deleted and created again gets a new one.

    `version` grows with every write; ticks use it for compare-and-set. `declared` is the specification from code,
    `overrides` are the changes of operators since; both are JSON text.
    """

    name: str
    id: str
    version: int = 0
    origin: Origin = "code"
    declared: str
    overrides: str = "{}"
    release: str = ""
    next_run: Micros | None = None
    last_tick: Micros | None = None
    anchor: Micros = 0
    last_number: int = 0
    paused: Micros | None = None
    paused_by: str | None = None
    pause_note: str | None = None
    resume: Micros | None = None
    cancelled: Micros | None = None
    sweep: bool = False
    created: Micros = 0
    updated: Micros = 0

    @_kept_if_small
    def spec(self) -> JobSpec:
        """The specification in force: declared, with the operators' overrides on top."""
        return effective_spec(self.declared, self.overrides)

    @cached_property
    def trigger(self) -> Trigger | None:
        """The trigger with zone, anchor and name filled in; None for a job that only runs on demand."""
        trigger = _zoned_trigger(self.declared, self.overrides)
        return None if trigger is None else trigger.anchored(to_datetime(self.anchor)).named(self.name)

    @property
    def hours(self) -> Hours | None:
        """When its ticks may run; None for always."""
        return _hours(self.declared, self.overrides)

    @property
    def readable(self) -> bool:
        """False if a newer release wrote this job and this one cannot read it. Such a job is left to nodes that can."""
        try:
            return self.spec is not None and (self.trigger, self.hours) is not None
        except (MainspringError, msgspec.MsgspecError):
            return False

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Occurrences that operators skipped or moved, by their tick."""
        return read_occurrences(self.overrides)

    @property
    def plan(self) -> Trigger | None:
        """The trigger without the occurrences that were skipped or moved, which have times of their own."""
        if not self.occurrences or self.trigger is None:
            return self.trigger
        return Without(self.trigger, frozenset(each.tick for each in self.occurrences))

    @property
    def policy(self) -> str:
        """The rules that are copied into each of its executions, as JSON text."""
        return _policy(self.declared, self.overrides)

    @property
    def labels(self) -> tuple[str, ...]:
        """Texts by which lists find it: its owner, its tags and the plain values of its metadata."""
        spec = self.spec
        return job_labels(spec.owner, spec.tags, spec.metadata)

    @property
    def ticking(self) -> bool:
        return self.trigger is not None and self.spec.enabled and self.paused is None and self.cancelled is None

    @property
    def on_demand(self) -> bool:
        """It runs only when it is enqueued or triggered. While such a job is paused, its executions wait."""
        return (self.trigger is None or not self.spec.enabled) and not self.spec.after

    @property
    def holds_executions(self) -> bool:
        """Its executions wait because it is paused."""
        return self.paused is not None and self.cancelled is None and self.on_demand

    @property
    def due(self) -> Micros | None:
        """When a scheduler must handle this job next: its next tick, the time of an occurrence that was skipped or
        moved, or the automatic end of its pause."""
        if self.cancelled is not None:
            return None
        if self.paused is not None:
            return self.resume
        if not self.ticking:
            return None
        return self._first([each.due for each in self.occurrences if not each.done])

    @property
    def declared_hash(self) -> str:
        return hashlib.sha256(self.declared.encode()).hexdigest()[:16]

    @property
    def changed_fields(self) -> dict[str, Any]:
        """The fields that operators changed, with their values."""
        fields: dict[str, Any] = msgspec.json.decode(self.overrides)
        fields.pop(FIELD, None)
        return fields

    @property
    def next_run_at(self) -> datetime | None:
        moved = [each.to for each in self.occurrences if each.to is not None and not each.done]
        return maybe_datetime(self._first(moved)) if self.ticking else None

    @property
    def paused_at(self) -> datetime | None:
        return maybe_datetime(self.paused)

    @property
    def cancelled_at(self) -> datetime | None:
        return maybe_datetime(self.cancelled)

    @property
    def resume_at(self) -> datetime | None:
        return maybe_datetime(self.resume)

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created)

    @property
    def updated_at(self) -> datetime:
        return to_datetime(self.updated)

    def with_changes(self, **changes: Any) -> Job:
        return msgspec.structs.replace(self, **changes)

    def _first(self, others: list[Micros]) -> Micros | None:
        """The earliest of the next tick and these instants. Usually there are none."""
        if not others:
            return self.next_run
        return min(others) if self.next_run is None else min(self.next_run, *others)


class JobStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics over all executions of a job that ever ended. `last_...` is about the newest that was not skipped."""

    job_id: str
    completed: int = 0
    partial: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    duration_ms: float = 0.0
    timed: int = 0
    rescued: int = 0
    last_id: str = ""
    last_state: State | None = None
    last_started: Micros | None = None
    last_finished: Micros | None = None
    last_error: str | None = None
    last_failures: int = 0
    by_trigger: dict[str, int] = {}
    """How many ended, by "trigger:state", such as "schedule:completed" or "api:failed"."""

    @property
    def total(self) -> int:
        return self.completed + self.partial + self.failed + self.cancelled

    @property
    def success_rate(self) -> float | None:
        judged = self.completed + self.partial + self.failed
        return self.completed / judged if judged else None

    @property
    def average_duration_ms(self) -> float | None:
        return self.duration_ms / self.timed if self.timed else None

    @property
    def last_status(self) -> str | None:
        return self.last_state.value if self.last_state else None


class LiveCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of executions of a job that have not ended."""

    pending: int = 0
    """How many wait for their time, a worker or their next attempt."""
    running: int = 0
    """How many run."""
    waiting: int = 0
    """How many wait for the runs of their tenants."""

    @property
    def total(self) -> int:
        """The sum of all three."""
        return self.pending + self.running + self.waiting


def encode_spec(spec: JobSpec) -> str:
    """The canonical JSON text: equal specifications give equal text, whatever the order of their parameters."""
    return msgspec.json.encode(spec, order="deterministic").decode()


# Decoded specifications are cached: a tick needs one several times, an enqueue each time. Some commands read jobs by
# the hundred thousand, so the cache holds only some pages of them. It holds very few with many values: the garbage
# collector looks at each value, and nothing else runs while it does.
_CACHED = 4_096
_MANY = 100
_CACHED_WITH_MANY = 16


@lru_cache(maxsize=_CACHED)
def _has_many(declared: str, overrides: str) -> bool:
    """Whether it has many lists and objects."""
    return sum(text.count(bracket) for text in (declared, overrides) for bracket in "[{") > _MANY


def effective_spec(declared: str, overrides: str) -> JobSpec:
    """The specification of a job in force: as declared, with the operators' overrides on top."""
    return (_with_many if _has_many(declared, overrides) else _usual)(declared, overrides)


def _effective_spec(declared: str, overrides: str) -> JobSpec:
    stated, edited = msgspec.json.decode(declared), msgspec.json.decode(overrides)
    fields = stated | edited
    if "secret" in edited:  # operators add secrets to those of the code, whatever a later release declares
        fields["secret"] = sorted({*stated.get("secret", ()), *edited["secret"]})
    if "trigger_role" in edited:  # operators raise the role, and never lower it
        fields["trigger_role"] = highest_role(stated.get("trigger_role"), edited["trigger_role"])
    try:
        return msgspec.convert(fields, JobSpec)
    except msgspec.ValidationError as error:
        raise InvalidValue("job", str(error), "fields of a job specification") from error


_usual = lru_cache(maxsize=_CACHED)(_effective_spec)
_with_many = lru_cache(maxsize=_CACHED_WITH_MANY)(_effective_spec)


@lru_cache(maxsize=_CACHED)
def _zoned_trigger(declared: str, overrides: str) -> Trigger | None:
    spec = effective_spec(declared, overrides)
    return None if spec.trigger is None else decode_trigger(spec.trigger).with_zone(zone("tz", spec.tz))


@lru_cache(maxsize=_CACHED)
def _hours(declared: str, overrides: str) -> Hours | None:
    hours = effective_spec(declared, overrides).hours
    return None if hours is None else hours_of(hours)


@lru_cache(maxsize=_CACHED)
def _policy(declared: str, overrides: str) -> str:
    return encode_policy(effective_spec(declared, overrides).run_policy())
