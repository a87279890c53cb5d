"""`Event`: what observers of users receive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeAlias, cast

import msgspec

from ...model.events import (
    AttemptEnded,
    BackfillBegan,
    BackfillEnded,
    BulkBegan,
    BulkEnded,
    ClockJumped,
    Enqueued,
    Fenced,
    JobConflict,
    Missed,
    OutsideHours,
    Overran,
    Pruned,
    Recovered,
    Rescued,
    RowEvent,
    Running,
    SkewNoticed,
    Skipped,
    Started,
    Stopped,
    Stopping,
    StoreLost,
    StoreReached,
    Ticked,
    Trouble,
    WaitingForStore,
    WebhookDisabled,
)
from ...model.time.instants import maybe_datetime, to_datetime
from .execution import Execution
from .records import Backfill, BulkAction, backfill_view, bulk_view

Event: TypeAlias = (
    Enqueued[Execution]
    | Started[Execution, datetime]
    | AttemptEnded[Execution]
    | Overran[Execution]
    | Skipped[Execution]
    | Ticked[Execution]
    | Rescued[Execution]
    | Fenced[Execution]
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
    | OutsideHours[datetime]
    | Missed[datetime]
    | BackfillBegan[Backfill]
    | BackfillEnded[Backfill]
    | BulkBegan[BulkAction]
    | BulkEnded[BulkAction]
    | WebhookDisabled
)
"""Every event that an observer may receive; its classes are in `mainspring.model.events`."""


class RowObserver(Protocol):
    """A built-in observer, such as `StatsD`: it is on the hot path, and receives events as core emits them."""

    takes_rows: bool

    def __call__(self, event: RowEvent, /) -> None: ...


Observer: TypeAlias = Callable[[Event], None] | RowObserver

_VIEWS: dict[str, Callable[[Any], Any]] = {
    "execution": Execution,
    "backfill": backfill_view,
    "bulk": bulk_view,
    "at": to_datetime,
    "until": maybe_datetime,
    "first": to_datetime,
    "last": to_datetime,
}
"""How the fields are converted that hold a row or an instant."""


def event_view(event: RowEvent) -> Event:
    """The event with the public values in place of rows, and datetimes in place of microseconds."""
    views = {name: _VIEWS[name](getattr(event, name)) for name in event.__struct_fields__ if name in _VIEWS}
    return cast(Event, msgspec.structs.replace(event, **views) if views else event)


class ViewObserver:
    """Stands between the dispatcher and an observer that a user wrote, which receives views instead of rows."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self.__qualname__ = getattr(observer, "__qualname__", type(observer).__qualname__)  # for the log

    def __call__(self, event: RowEvent, /) -> None:
        self._observer(event_view(event))

    def hears(self, kind: type) -> bool:
        hears: Callable[[type], bool] | None = getattr(self._observer, "hears", None)
        return hears is None or hears(kind)


class ChoosyViewObserver(ViewObserver):
    """The same for an observer that has a method `wants`."""

    def wants(self, kind: type, execution: Any) -> bool:
        return bool(self._observer.wants(kind, Execution(execution)))


def adapted(observer: Any) -> Callable[[Any], None]:
    """The observer as the dispatcher calls it."""
    if getattr(observer, "takes_rows", False):
        return cast(RowObserver, observer)
    return ChoosyViewObserver(observer) if hasattr(observer, "wants") else ViewObserver(observer)
