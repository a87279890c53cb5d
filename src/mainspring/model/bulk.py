"""Bulk actions: one command for everything that a filter finds, as an object with progress and results."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from .store.messages import ExecutionQuery
from .time.instants import Micros, maybe_datetime, to_datetime

BulkTarget: TypeAlias = Literal["executions", "jobs", "errors"]
BulkState: TypeAlias = Literal["running", "probing", "aborting", "completed", "stopped", "aborted"]
ItemStatus: TypeAlias = Literal["planned", "done", "refused", "skipped"]

BulkVerb: TypeAlias = Literal["retry", "cancel", "edit", "delete", "pause", "resume", "mute", "unmute"]

ACTIONS: dict[BulkTarget, tuple[str, ...]] = {
    "executions": ("retry", "cancel", "edit", "delete"),
    "jobs": ("pause", "resume", "cancel", "retry", "delete"),
    "errors": ("mute", "unmute"),
}
OVER: frozenset[BulkState] = frozenset({"completed", "stopped", "aborted"})


class BulkRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bulk action and how far it is.

    Its items are handled page by page. Pages below `page` have been counted in `done`, `refused` and `skipped`;
    `cursor` is where the next one begins, and `last` says that there is none. `filter` is as the caller gave it,
    `query` is what the store is asked, with absolute times. `role` is the role of a caller who may not steer every job.
    `driver` is the process that last advanced it, at `moved`. `probed` are the executions that the probe has created,
    `stopped_by` is the first of them that did not complete. `errors` counts the refused items by code, `skips` those
    that were left out.
    """

    id: str
    action: str
    target: BulkTarget
    state: BulkState = "running"
    reason: str | None = None
    filter: dict[str, Any] = {}
    query: ExecutionQuery | None = None
    ids: tuple[str, ...] = ()
    params: dict[str, Any] = {}
    secret: tuple[str, ...] = ()  # paths into `params` whose values are not shown
    remove: tuple[str, ...] = ()
    note: str | None = None
    role: str | None = None
    created: Micros
    created_by: str
    finished: Micros | None = None

    total: int = 0
    total_is_exact: bool = True
    done: int = 0
    refused: int = 0
    skipped: int = 0
    errors: dict[str, int] = {}
    skips: dict[str, int] = {}

    pace: float | None = None
    next_at: Micros = 0
    probe: int = 0
    probed: tuple[str, ...] = ()
    stopped_by: str | None = None

    page: int = 0
    cursor: str | None = None
    last: bool = False
    driver: str = ""
    moved: Micros = 0

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def handled(self) -> int:
        return self.done + self.refused + self.skipped

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created)

    @property
    def finished_at(self) -> datetime | None:
        return maybe_datetime(self.finished)


class BulkItemRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of one item of a bulk action."""

    id: str
    """The job or execution."""
    status: ItemStatus = "planned"
    """Whether it is planned, done, refused or skipped."""
    execution_id: str | None = None
    """The execution that was created; for a skipped item, the retry that it had before."""
    now: str | None = None
    """Its new state."""
    code: str | None = None
    """The kind of error that refused it."""
    error: str | None = None
    """Why it was refused or skipped, in words."""


class BulkPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some items in the order in which they are handled. Written once when they are chosen, and once more with what
    became of them (`settled`). `next` is where the following page begins; None if this is the last one."""

    items: tuple[BulkItemRow, ...] = ()
    next: str | None = None
    settled: bool = False


class BulkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a bulk action would do: how many items match, and the outcome of some of them."""

    action: str
    """What it would do to each item."""
    target: BulkTarget
    """Whether the items are jobs or executions."""
    filter: dict[str, Any]
    """The filter that selects them."""
    total: int
    """How many items match."""
    total_is_exact: bool
    """False if there are at least `total` items."""
    sample: tuple[BulkItemRow, ...]
    """The outcome that some of them would have."""
