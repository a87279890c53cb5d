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


class Started(msgspec.Struct, Generic[E, T], frozen=True, gc=False):
    """An attempt of an execution begins in this process."""

    execution: E
    at: T


class AttemptEnded(msgspec.Struct, Generic[E], frozen=True, gc=False):
    """An attempt ended and the store accepted its ending; `state` is the new state of the execution. Also emitted for a
    parent whose children have ended, and for an execution that was cancelled before or between its attempts: then
    `tried` is false, and there is no duration."""

    execution: E
    state: State
    attempt: int
    duration_ms: float
    error: str | None = None
    traceback: str | None = None
    retry_in: float | None = None
    reason: str | None = None
    tried: bool = True
    error_group: str | None = None


class Overran(msgspec.Struct, Generic[E], frozen=True):
    """An attempt goes on although it was asked to stop: its timeout has passed, or it was cancelled. Emitted once,
    while it runs."""

    execution: E
    asked_by: AskedBy
    duration_ms: float


class Skipped(msgspec.Struct, Generic[E], frozen=True):
    """An execution was recorded as skipped. Windows that a backfill skips have no event of their own: `BackfillEnded`
    has their number."""

    execution: E
    reason: str
    holder: str | None = None


class Ticked(msgspec.Struct, Generic[E], frozen=True):
    """A scheduler of this process materialised a tick, `late_ms` after its time."""

    execution: E
    late_ms: float


class Rescued(msgspec.Struct, Generic[E], frozen=True):
    """An execution was taken back from a worker whose lease ran out."""

    execution: E
    silent_ms: float
    state: State
    reason: str | None = None
    retry_in: float | None = None


class Fenced(msgspec.Struct, Generic[E], frozen=True):
    """A write was refused because the execution belongs to another worker by now."""

    execution: E
    write: str


class Stopping(msgspec.Struct, frozen=True):
    """This process was asked to stop; running executions have that many seconds."""

    worker: str
    running: int
    seconds: float


class Stopped(msgspec.Struct, frozen=True):
    """This process has stopped. `unsettled` is the number of executions whose ending the store has not accepted,
    because it cannot be reached: others take them over when their `lease` ends, after so many seconds, and run them
    again."""

    worker: str
    handed_back: int
    unsettled: int = 0
    lease: float = 0.0


class Running(msgspec.Struct, frozen=True):
    """This process has started its roles, with these settings in force."""

    worker: str
    roles: tuple[str, ...]
    settings: dict[str, object]


class Trouble(msgspec.Struct, frozen=True):
    """An internal operation of Mainspring failed; the process continues."""

    where: str
    error: str
    traceback: str | None = None


class StoreLost(msgspec.Struct, frozen=True):
    """A loop of this process cannot reach the store. It goes on trying, and emits `Recovered` when it succeeds."""

    where: str
    error: str
    traceback: str | None = None


class Recovered(msgspec.Struct, frozen=True):
    """A loop works again, so many seconds after its first error."""

    where: str
    seconds: float


class WaitingForStore(msgspec.Struct, frozen=True):
    """This process starts, and waits up to so many seconds for a server that cannot be reached yet."""

    address: str
    seconds: float
    error: str | None = None


class StoreReached(msgspec.Struct, frozen=True):
    """The server that this process waited for has answered, after so many seconds."""

    address: str
    seconds: float


class Pruned(msgspec.Struct, frozen=True):
    """Jobs that no running process declares were removed at startup: see the setting `prune`."""

    jobs: tuple[str, ...]


class JobConflict(msgspec.Struct, frozen=True):
    """Another application that runs on this database declares the same job with other code: whichever starts last
    decides its schedule, and either may run it. `handler` and `other_handler` are the code, as `module.function`."""

    job: str
    handler: str
    other_application: str
    other_handler: str


class SkewNoticed(msgspec.Struct, frozen=True):
    """This process's clock and the store's differ by more than the limit."""

    seconds: float


class ClockJumped(msgspec.Struct, frozen=True):
    """The store's clock was set, or this machine slept: its time and the monotonic clock differ by so many seconds."""

    seconds: float


class OutsideHours(msgspec.Struct, Generic[T], frozen=True):
    """The first tick that came while its job is closed: it waits for the opening, or is skipped. `until` is None
    when the job does not open within years."""

    job: str
    until: T | None
    by: str
    waits: bool


class Missed(msgspec.Struct, Generic[T], frozen=True):
    """Ticks whose time and grace are over although no scheduler materialised them. A watcher reports them once.

    `exact` is false when there were too many to count; `schedulers` is the number of live schedulers. With `waiting` no
    tick was missed: `count` executions wait, the oldest has been due since `first`, and no worker takes them.
    """

    job: str
    first: T
    last: T
    count: int
    exact: bool
    schedulers: int
    waiting: bool = False


class BackfillBegan(msgspec.Struct, Generic[B], frozen=True):
    """A backfill was created in this process."""

    backfill: B


class BackfillEnded(msgspec.Struct, Generic[B], frozen=True):
    """A backfill has ended; this process made its last step."""

    backfill: B


class BulkBegan(msgspec.Struct, Generic[B], frozen=True):
    """A bulk action was started in this process."""

    bulk: B


class BulkEnded(msgspec.Struct, Generic[B], frozen=True):
    """A bulk action is over; this process made its last step."""

    bulk: B


class WebhookDisabled(msgspec.Struct, frozen=True):
    """An endpoint of webhooks was disabled, because its receiver has failed for days or does not exist any more. `url`
    names its host only."""

    webhook: str
    url: str
    reason: str


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
