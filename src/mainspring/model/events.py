"""What happened: typed events that core emits to observers. Logs, metrics and traces are made from these alone."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .backfill import Backfill
from .execution import ExecutionRow, State
from .time.instants import Micros


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """An execution was made that no tick asked for: enqueued, triggered, retried by hand, one of a backfill, for one of
    many tenants, or after another job; its `trigger` says which. Told only if somebody listens: see `core.emitting`.
    """

    execution: ExecutionRow


class Started(msgspec.Struct, frozen=True, gc=False):
    """A try of an execution begins in this process."""

    execution: ExecutionRow
    at: Micros


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """A try ended and its ending was accepted; `state` is where the execution went. A parent that waited for others
    has ended, too; and an execution that was cancelled before or between its tries: then `tried` is false, and there
    is no duration.
    """

    execution: ExecutionRow
    state: State
    attempt: int
    duration_ms: float
    error: str | None = None
    traceback: str | None = None
    retry_in: float | None = None
    reason: str | None = None
    tried: bool = True


class Skipped(msgspec.Struct, frozen=True):
    """An execution was recorded as skipped. Windows that a backfill passes over are not told one by one:
    `BackfillEnded` says how many they were."""

    execution: ExecutionRow
    reason: str
    holder: str | None = None


class Ticked(msgspec.Struct, frozen=True):
    """A scheduler of this process made a tick happen; `late_ms` is how long after its time."""

    execution: ExecutionRow
    late_ms: float


class Rescued(msgspec.Struct, frozen=True):
    """An execution was taken back from a worker that fell silent."""

    execution: ExecutionRow
    silent_ms: float
    state: State
    reason: str | None = None
    retry_in: float | None = None


class Fenced(msgspec.Struct, frozen=True):
    """A write was refused because the execution belongs to somebody else by now."""

    execution: ExecutionRow
    write: str


class Stopping(msgspec.Struct, frozen=True):
    """This process was asked to stop: what runs has that many seconds."""

    worker: str
    running: int
    seconds: float


class Stopped(msgspec.Struct, frozen=True):
    """This process stopped taking part."""

    worker: str
    handed_back: int


class Running(msgspec.Struct, frozen=True):
    """This process takes part from now on, with these settings in force."""

    worker: str
    roles: tuple[str, ...]
    settings: dict[str, object]


class Trouble(msgspec.Struct, frozen=True):
    """Something in Mainspring itself went wrong and was survived."""

    where: str
    error: str
    traceback: str | None = None


class Pruned(msgspec.Struct, frozen=True):
    """Jobs of code that no running process declares were removed at this start: see the setting `prune`."""

    jobs: tuple[str, ...]


class SkewNoticed(msgspec.Struct, frozen=True):
    """This process's clock and the store's differ by more than the limit."""

    seconds: float


class ClockJumped(msgspec.Struct, frozen=True):
    """The store's clock was set, or this machine slept: its time and the monotonic clock parted by so many seconds."""

    seconds: float


class OutsideHours(msgspec.Struct, frozen=True):
    """A tick came while its job was closed, the first of that closing: it waits for the opening, or does not happen.

    `until` is None when the job does not open within years.
    """

    job: str
    until: Micros | None
    by: str
    waits: bool


class Missed(msgspec.Struct, frozen=True):
    """Ticks that no scheduler made happen: their time and their grace are over. Told by whoever watches, once.

    `exact` is false when there were too many to count; `schedulers` is how many were heard of lately.
    """

    job: str
    first: Micros
    last: Micros
    count: int
    exact: bool
    schedulers: int


class BackfillBegan(msgspec.Struct, frozen=True):
    """A backfill was made in this process."""

    backfill: Backfill


class BackfillEnded(msgspec.Struct, frozen=True):
    """A backfill is over; its last step was made in this process."""

    backfill: Backfill


Event: TypeAlias = (
    Enqueued
    | Started
    | AttemptEnded
    | Skipped
    | Ticked
    | Rescued
    | Fenced
    | Running
    | Stopping
    | Stopped
    | Trouble
    | Pruned
    | SkewNoticed
    | ClockJumped
    | OutsideHours
    | Missed
    | BackfillBegan
    | BackfillEnded
)
