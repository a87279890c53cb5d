"""What observers of users receive: the event classes of core, with public values instead of rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pytest

from mainspring import Event, Execution, Mainspring
from mainspring.app.adapters import observers_of
from mainspring.core.views.events import _VIEWS, event_view
from mainspring.model.events import AttemptEnded, Missed, OutsideHours, RowEvent, SkewNoticed, Started
from mainspring.model.execution import ExecutionRow, State
from mainspring.observe.dispatch import Dispatcher
from mainspring.observe.logs.lines import LogLines

ROW = ExecutionRow(id="1", job="crawl", job_id="1", handler="crawl", params='{"url":"https://example.org"}')
OTHER = ExecutionRow(id="2", job="other", job_id="2", handler="other")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MICROS = 1_767_225_600_000_000


def kinds(union: Any) -> list[type]:
    return [get_origin(kind) or kind for kind in get_args(union)]


def test_rows_become_views_and_microseconds_datetimes() -> None:
    started: Any = event_view(Started(ROW, MICROS))
    assert started == Started(Execution(ROW), NEW_YEAR)
    assert started.execution.params == {"url": "https://example.org"}
    assert event_view(Missed("crawl", MICROS, MICROS, 1, True, 0)) == Missed("crawl", NEW_YEAR, NEW_YEAR, 1, True, 0)
    assert event_view(OutsideHours("crawl", MICROS, "hours", True)) == OutsideHours("crawl", NEW_YEAR, "hours", True)
    assert event_view(OutsideHours("crawl", None, "hours", True)) == OutsideHours("crawl", None, "hours", True)


def test_an_event_without_rows_stays_the_same_object() -> None:
    event = SkewNoticed(3.0)
    assert event_view(event) is event


@pytest.mark.parametrize("kind", kinds(RowEvent))
def test_every_field_that_differs_is_converted(kind: type) -> None:
    """A field that is typed by a type variable holds a row or an instant."""
    hints = get_type_hints(kind)
    differing = {name for name, hint in hints.items() if any(isinstance(a, TypeVar) for a in (hint, *get_args(hint)))}
    assert differing == {name for name in hints if name in _VIEWS}


def test_both_unions_name_the_same_classes() -> None:
    assert kinds(RowEvent) == kinds(Event)


class Choosy:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.seen: list[Any] = []

    def hears(self, kind: type) -> bool:
        return kind is Started

    def wants(self, kind: type, execution: Execution) -> bool:
        self.asked.append(execution)
        return execution.params != {}

    def __call__(self, event: Event) -> None:
        self.seen.append(event)


def test_filters_of_users_are_asked_about_views() -> None:
    choosy, all_events = Choosy(), list[Any]()
    dispatcher = Dispatcher(*observers_of([choosy, all_events.append]))
    events = [Started(ROW, MICROS), Started(OTHER, MICROS)]
    dispatcher.dispatch_all(Started, [ROW, OTHER], lambda: events)
    dispatcher(SkewNoticed(3.0))
    assert choosy.asked == [Execution(ROW), Execution(OTHER)]
    assert choosy.seen == [Started(Execution(ROW), NEW_YEAR)]
    assert all_events == [*map(event_view, events), SkewNoticed(3.0)]
    assert Dispatcher(*observers_of(choosy)).wants(Started, OTHER) is None


def test_a_failing_observer_is_logged_by_its_own_name(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Choosy):
        def wants(self, kind: type, execution: Execution) -> bool:
            raise ValueError

    def fails(event: Event) -> None:
        raise ValueError

    dispatcher = Dispatcher(*observers_of([fails, Failing()]))
    dispatcher.dispatch_all(Started, [ROW], lambda: [Started(ROW, MICROS)])
    assert [name in caplog.text for name in ("locals>.fails failed", "locals>.Failing failed")] == [True, True]


def test_built_in_observers_receive_rows() -> None:
    lines = LogLines()
    assert observers_of([lines]) == (lines,)


async def test_an_application_gives_its_observers_what_it_gives_its_callers() -> None:
    seen: list[Event] = []
    app = Mainspring("memory://", observers=[seen.append])

    @app.job("crawl")
    def crawl(url: str) -> str:
        return url.upper()

    async with app:
        ended = await app.wait(await app.enqueue("crawl", {"url": "there"}))
    (event,) = (event for event in seen if isinstance(event, AttemptEnded))
    assert (event.execution.id, event.execution.params, event.state) == (ended.id, {"url": "there"}, State.COMPLETED)
    assert isinstance(event.execution, Execution)
    assert all(event.at.tzinfo is not None for event in seen if isinstance(event, Started))
