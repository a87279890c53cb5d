"""The windows of a job with their states, and backfills: the windows of a range, run one after another."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from .time.instants import Micros, maybe_datetime, to_datetime
from .windows import Window, window_between

WindowState: TypeAlias = Literal["done", "failed", "missing", "running"]
BackfillState: TypeAlias = Literal[
    "planned", "planning", "running", "paused", "cancelling", "completed", "partial", "failed", "cancelled"
]
STATES: tuple[WindowState, ...] = ("done", "failed", "missing", "running")
Order: TypeAlias = Literal["oldest", "newest"]
Only: TypeAlias = Literal["holes", "missing", "failed"]

OVER: frozenset[BackfillState] = frozenset({"completed", "partial", "failed", "cancelled"})


class WindowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One window that the schedule requires. `runs` is the number of its executions that have ended. `execution_id` is
    the live one or the last one that ended, and `last_state` is how that one ended.

    A window that has completed is `done`, even if a later run of it failed. If all its runs were cancelled, it is
    `missing`.
    """

    window: Window
    """The window."""
    state: WindowState
    """`done`, `failed`, `missing` or `running`."""
    execution_id: str | None = None
    """The live execution of the window, or the last one that ended."""
    last_state: str | None = None
    """How the last execution of the window ended."""
    runs: int = 0
    """How many executions of the window have ended."""
    finished_at: datetime | None = None
    """When the last of them ended."""


class Windows(list[WindowStatus]):
    """The windows of a range, oldest first."""

    @property
    def counts(self) -> dict[WindowState, int]:
        """How many are in each state."""
        found = Counter(each.state for each in self)
        return {state: found[state] for state in STATES}


class BackfillRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A backfill and how far it is.

    Its windows have numbers from 0 to `total` - 1, in the order in which they run. Those below `position` have been
    handed out; `in_flight` are the handed-out ones that are not known to have ended. `already_done` and
    `already_running` windows of the range were left out when it was created; `skipped` ones were done meanwhile,
    `held` ones were running elsewhere when their turn came. `windows` are only listed by a dry run. `tz` is the zone of
    the job, in which its range is shown.
    """

    id: str
    job: str
    job_id: str
    begin: Micros
    end: Micros
    order: Order = "oldest"
    concurrency: int = 1
    pace: float | None = None
    force: bool = False
    only: Only = "holes"
    params: str | None = None
    secret: tuple[str, ...] = ()  # paths into `params` whose values are not shown
    note: str | None = None
    created: Micros = 0
    created_by: str = "system"
    total: int = 0
    already_done: int = 0
    already_running: int = 0

    state: BackfillState = "planning"
    reason: str | None = None
    position: int = 0
    in_flight: tuple[int, ...] = ()
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    held: int = 0
    started: Micros | None = None
    finished: Micros | None = None
    next_at: Micros = 0
    moved: Micros = 0
    windows: tuple[Window, ...] = ()
    tz: str = "UTC"

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def ended(self) -> int:
        """How many of its windows have ended, in any way."""
        return self.completed + self.failed + self.cancelled + self.skipped + self.held

    @property
    def running(self) -> int:
        """How many are handed out and have not ended, as far as is known."""
        return len(self.in_flight)

    @property
    def window(self) -> Window:
        """The range it was asked for."""
        return window_between(self.begin, self.end, self.tz)

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created)

    @property
    def started_at(self) -> datetime | None:
        return maybe_datetime(self.started)

    @property
    def finished_at(self) -> datetime | None:
        return maybe_datetime(self.finished)
