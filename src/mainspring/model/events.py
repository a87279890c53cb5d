"""Typed events that core emits to observers. Logs and metrics are made from them.

Core and the built-in observers handle stored rows and microseconds: `RowEvent`. Observers of users receive the same
classes with the public values in place of the rows, and aware datetimes: see `mainspring.Event`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import msgspec

from .backfill import BackfillRow
from .bulk import BulkRow
from .execution import AskedBy, ExecutionRow, State
from .time.instants import Micros

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    E = TypeVar("E", default=Any)
    B = TypeVar("B", default=Any)
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    E = TypeVar("E")  # the execution: a row, or what users hold of it
    B = TypeVar("B")  # the backfill or bulk action, likewise
    T = TypeVar("T")  # an instant: microseconds, or a datetime


class Enqueued(msgspec.Struct, Generic[E], frozen=True, gc=False):
    """An execution was created without a tick: enqueued, triggered, retried by an operator, or for a backfill, a tenant
    or a job that comes after another; its `trigger` says which. Emitted only if an observer wants it."""

    execution: E
    """The new execution."""


class Started(msgspec.Struct, Generic[E, T], frozen=True, gc=False):
    """An attempt of an execution begins in this process."""

    execution: E
    """The execution."""
    at: T
    """When the attempt began."""


class AttemptEnded(msgspec.Struct, Generic[E], frozen=True, gc=False):
    """An attempt ended, and the store accepted its ending. `state` is the new state of the execution.

    Also emitted for a parent whose children have ended, and for an execution that was cancelled before or between its
    attempts. Then `tried` is false, and there is no duration."""

    execution: E
    """The execution."""
    state: State
    """Its new state."""
    attempt: int
    """The number of the attempt, from 1."""
    duration_ms: float
    """How long the attempt took, in milliseconds."""
    error: str | None = None
    """The exception and its message, if it failed."""
    traceback: str | None = None
    """The traceback, if it failed."""
    retry_in: float | None = None
    """The seconds until the next attempt; None if there is none."""
    reason: str | None = None
    """Why it ended as it did, where that needs a reason."""
    tried: bool = True
    """False if no attempt was made."""
    error_group: str | None = None
    """The id of the error group that the failure belongs to."""


class Overran(msgspec.Struct, Generic[E], frozen=True):
    """An attempt has not stopped although it was asked to: its timeout has passed, or it was cancelled. Emitted once,
    while it is running."""

    execution: E
    """The execution."""
    asked_by: AskedBy
    """What asked it to stop: its timeout, or a cancellation."""
    duration_ms: float
    """How long the attempt has been running, in milliseconds."""


class Skipped(msgspec.Struct, Generic[E], frozen=True):
    """An execution was recorded as skipped. Windows that a backfill skips have no event of their own: `BackfillEnded`
    has their number."""

    execution: E
    """The skipped execution."""
    reason: str
    """Why it was skipped."""
    holder: str | None = None
    """The id of the execution that it would have overlapped with."""


class Ticked(msgspec.Struct, Generic[E], frozen=True):
    """A scheduler of this process created the execution of a tick, `late_ms` after its time."""

    execution: E
    """The execution of the tick."""
    late_ms: float
    """How late the tick was, in milliseconds."""


class Rescued(msgspec.Struct, Generic[E], frozen=True):
    """An execution was taken back from a worker whose lease had expired."""

    execution: E
    """The execution."""
    silent_ms: float
    """How long its worker had been silent, in milliseconds."""
    state: State
    """The new state of the execution."""
    reason: str | None = None
    """Why it is in this state."""
    retry_in: float | None = None
    """The seconds until the next attempt; None if there is none."""


class Fenced(msgspec.Struct, Generic[E], frozen=True):
    """The store refused a write, because another worker owns the execution by now."""

    execution: E
    """The execution."""
    write: str
    """The write that was refused."""


class Stopping(msgspec.Struct, frozen=True):
    """This process was asked to stop. Its running executions have `seconds` to end."""

    worker: str
    """The id of this process."""
    running: int
    """How many executions run."""
    seconds: float
    """How many seconds they have."""


class Stopped(msgspec.Struct, frozen=True):
    """This process has stopped. `unsettled` is the number of executions whose ending it could not record, because the
    store cannot be reached. Other workers run them again after `lease` seconds, when their leases have expired."""

    worker: str
    """The id of this process."""
    handed_back: int
    """How many executions were handed back unfinished."""
    unsettled: int = 0
    """How many endings the store has not accepted."""
    lease: float = 0.0
    """After how many seconds other workers take these over."""


class Running(msgspec.Struct, frozen=True):
    """This process has started its roles, with these settings in force."""

    worker: str
    """The id of this process."""
    roles: tuple[str, ...]
    """What this process does."""
    settings: dict[str, object]
    """The settings in force."""


class Trouble(msgspec.Struct, frozen=True):
    """An internal operation of Mainspring failed; the process continues."""

    where: str
    """The part of Mainspring that failed."""
    error: str
    """The exception and its message."""
    traceback: str | None = None
    """Its traceback."""


class StoreLost(msgspec.Struct, frozen=True):
    """A loop of this process cannot reach the store. It goes on trying, and emits `Recovered` when it succeeds."""

    where: str
    """The loop that cannot reach the store."""
    error: str
    """The exception and its message."""
    traceback: str | None = None
    """Its traceback."""


class Recovered(msgspec.Struct, frozen=True):
    """A loop works again, `seconds` after its first error."""

    where: str
    """The loop that works again."""
    seconds: float
    """The seconds since its first error."""


class WaitingForStore(msgspec.Struct, frozen=True):
    """This process is starting, and waits up to `seconds` for a server that it cannot reach yet."""

    address: str
    """The server."""
    seconds: float
    """How many seconds this process waits at most."""
    error: str | None = None
    """Why the server cannot be reached."""


class StoreReached(msgspec.Struct, frozen=True):
    """The server that this process waited for has answered, after `seconds`."""

    address: str
    """The server."""
    seconds: float
    """How many seconds this process has waited."""


class Pruned(msgspec.Struct, frozen=True):
    """Jobs that no running process declares were removed at startup: see the setting `prune`."""

    jobs: tuple[str, ...]
    """The names of the removed jobs."""


class JobConflict(msgspec.Struct, frozen=True):
    """Another application on this database declares the same job with different code. The application that starts last
    decides the schedule of the job, and either may run it. `handler` and `other_handler` are the code, as
    `module.function`."""

    job: str
    """The name of the job."""
    handler: str
    """The code of this application behind it, as `module.function`."""
    other_application: str
    """The other application."""
    other_handler: str
    """The code of the other application behind it."""


class SkewNoticed(msgspec.Struct, frozen=True):
    """The clocks of this process and of the store differ by more than two seconds."""

    seconds: float
    """By how many seconds the clocks differ."""


class ClockJumped(msgspec.Struct, frozen=True):
    """The store's clock was set, or its machine was suspended. `seconds` is the difference from the monotonic clock."""

    seconds: float
    """By how many seconds the clocks differ."""


class OutsideHours(msgspec.Struct, Generic[T], frozen=True):
    """The first tick of a job outside of its hours. The tick waits for the next opening, or is skipped. `until` is None
    if the job does not open within years."""

    job: str
    """The name of the job."""
    until: T | None
    """When it opens; None if it does not open within years."""
    by: str
    """What closes it: its hours, or a calendar."""
    waits: bool
    """Whether the tick waits for the opening; otherwise it is skipped."""


class Missed(msgspec.Struct, Generic[T], frozen=True):
    """Ticks that are overdue by more than their grace, because no scheduler has created their executions. A watcher
    reports them once.

    `exact` is false if there were too many to count. `schedulers` is the number of live schedulers. With `waiting`, no
    tick was missed: `count` executions wait, the oldest has been due since `first`, and no worker claims them.
    """

    job: str
    """The name of the job."""
    first: T
    """The time of the first missed run."""
    last: T
    """The time of the last missed run."""
    count: int
    """How many runs were missed; with `waiting`, how many executions wait."""
    exact: bool
    """False if there were too many to count."""
    schedulers: int
    """How many schedulers were alive."""
    waiting: bool = False
    """No run was missed, but executions wait and no worker takes them."""


class BackfillBegan(msgspec.Struct, Generic[B], frozen=True):
    """A backfill was created in this process."""

    backfill: B
    """The backfill."""


class BackfillEnded(msgspec.Struct, Generic[B], frozen=True):
    """A backfill has ended, and this process made its last step."""

    backfill: B
    """The backfill."""


class BulkBegan(msgspec.Struct, Generic[B], frozen=True):
    """A bulk action was started in this process."""

    bulk: B
    """The bulk action."""


class BulkEnded(msgspec.Struct, Generic[B], frozen=True):
    """A bulk action has ended, and this process made its last step."""

    bulk: B
    """The bulk action."""


class WebhookDisabled(msgspec.Struct, frozen=True):
    """An endpoint of webhooks was disabled, because its receiver has failed for days or does not exist any more. `url`
    names its host only."""

    webhook: str
    """The id of the endpoint."""
    url: str
    """Its address; only the host is shown."""
    reason: str
    """Why it was disabled."""


RowEvent: TypeAlias = (
    Enqueued[ExecutionRow]
    | Started[ExecutionRow, Micros]
    | AttemptEnded[ExecutionRow]
    | Overran[ExecutionRow]
    | Skipped[ExecutionRow]
    | Ticked[ExecutionRow]
    | Rescued[ExecutionRow]
    | Fenced[ExecutionRow]
    | Running
    | Stopping
    | Stopped
    | Trouble
    | StoreLost
    | Recovered
    | WaitingForStore
    | StoreReached
    | Pruned
    | JobConflict
    | SkewNoticed
    | ClockJumped
    | OutsideHours[Micros]
    | Missed[Micros]
    | BackfillBegan[BackfillRow]
    | BackfillEnded[BackfillRow]
    | BulkBegan[BulkRow]
    | BulkEnded[BulkRow]
    | WebhookDisabled
)
