"""Events to observers: in order, and never letting one of them stop a job.

An observer is any callable that takes an event. Two methods, both optional, say what it has no use for:

- `hears(kind)`: whether it wants events of this kind at all. Asked once for each kind, and remembered.
- `wants(kind, execution)`: whether it wants this one. Asked each time, before an event is made that every execution has
  when all goes well: `Started`, and `AttemptEnded` of one that completed. For `Enqueued`, about the first of a batch.

Those events of everyday life come many at once, and observers that are always there hear them so (`together`):

- `wants_any(kind, executions)` is asked instead of `wants`, once for all of them.
- `hear_all(events)` takes them all, of one kind. What it raises is told as any other failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, TypeAlias, cast

_log = logging.getLogger("mainspring.observe")

FAILURES = (Exception, SystemExit)
"""Of an observer. One that calls `sys.exit` fails as any other: it does not decide how long jobs run."""

Listener: TypeAlias = Callable[[Any], None]
Wants: TypeAlias = Callable[[type, Any], bool]


class Fanout:
    """Calls every observer with the events it hears. What an observer raises is logged once per kind, and forgotten."""

    def __init__(self, *observers: Listener) -> None:
        self._observers = list(observers)
        self._complained: set[tuple[int, type]] = set()
        self._hearing: dict[type, tuple[Listener, ...]] = {}
        self._asked: dict[type, tuple[tuple[Wants, ...], Fanout | None]] = {}

    def add(self, observer: Listener) -> None:
        self._observers.append(observer)
        self._hearing, self._asked = {}, {}

    def wants(self, kind: type, execution: Any) -> Fanout | None:
        """Whom to tell the event of this kind about this execution, which goes as it should: an event of everyday life,
        not worth making when nobody wants it. All other events are told unasked."""
        asked = self._asked.get(kind)
        if asked is None:
            asked = self._whom_to_ask(kind)
        choosy, eager = asked
        wants = None
        try:
            for wants in choosy:
                if wants(kind, execution):
                    return self
        except FAILURES as error:  # who fails to answer is told of the event
            self._complain(getattr(wants, "__self__", wants), error)
            return self
        return eager

    def __call__(self, event: Any) -> None:
        kind = type(event)
        hearing = self._hearing.get(kind)
        if hearing is None:
            hearing = self._who_hears(kind)
        for observer in hearing:
            try:
                observer(event)
            except FAILURES as error:
                self._complain(observer, error)

    def together(self, kind: type, executions: Sequence[Any], make: Callable[[], Sequence[Any]]) -> None:
        """Tell of executions that go as they should: `make` makes the events, one for each, if anybody wants any."""
        hearing = self._hearing.get(kind)
        if hearing is None:
            hearing = self._who_hears(kind)
        events: Sequence[Any] | None = None
        for observer in hearing:
            wanted = self._wanted(observer, kind, executions)
            if wanted:
                events = make() if events is None else events
                self._tell_all(observer, events if wanted is True else list(compress(events, wanted)))

    def _wanted(self, observer: Any, kind: type, executions: Sequence[Any]) -> Sequence[bool] | bool:
        """All of them, none, or for each whether it is. Who fails to answer is told of all."""
        wants_any, wants = getattr(observer, "wants_any", None), getattr(observer, "wants", None)
        try:
            if wants_any is not None:
                return bool(wants_any(kind, executions))
            if wants is not None:
                each = [wants(kind, execution) for execution in executions]
                return each if any(each) else False
        except FAILURES as error:
            self._complain(observer, error)
        return True

    def _tell_all(self, observer: Any, events: Sequence[Any]) -> None:
        hear_all = getattr(observer, "hear_all", None)
        hear, told = (observer, events) if hear_all is None else (hear_all, (events,))
        for each in told:
            try:
                hear(each)
            except FAILURES as error:
                self._complain(observer, error)

    def _who_hears(self, kind: type) -> tuple[Listener, ...]:
        known = self._hearing  # one that is added meanwhile, in another thread, puts another table in its place
        hearing = known[kind] = tuple(each for each in list(self._observers) if self._hears(each, kind))
        return hearing

    def _whom_to_ask(self, kind: type) -> tuple[tuple[Wants, ...], Fanout | None]:
        """Those who want to be asked, and whom to tell if none of them wants it: those who want every event."""
        known, hearing = self._asked, self._who_hears(kind)
        choosy = tuple(each.wants for each in cast(Any, hearing) if hasattr(each, "wants"))
        eager = Fanout(*(each for each in hearing if not hasattr(each, "wants")))
        eager._complained = self._complained
        asked = known[kind] = (choosy, eager if len(choosy) < len(hearing) else None)
        return asked

    def _hears(self, observer: Listener, kind: type) -> bool:
        hears: Callable[[type], bool] | None = getattr(observer, "hears", None)
        try:
            return hears is None or hears(kind)
        except FAILURES as error:
            self._complain(observer, error)
            return True

    def _complain(self, observer: object, error: BaseException) -> None:
        kind = (id(observer), type(error))
        if kind in self._complained:
            return
        self._complained.add(kind)
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        try:
            _log.exception("observer %s failed; jobs go on without it", name)
        except Exception:
            return  # it may be logging itself that fails
