"""Dispatches events to observers, in order, without letting an observer stop a job.

An observer is any callable that takes an event. Two optional methods say which events it needs:

- `hears(kind)`: whether it needs events of this kind at all. Called once for each kind, and remembered.
- `wants(kind, execution)`: whether it needs this event. Called before an event is created that every execution has when
  all goes well: `Started`, and `AttemptEnded` with the state completed. For `Enqueued`, the first of a batch.

These frequent events come in batches (`dispatch_all`), which built-in observers take as a whole:

- `wants_any(kind, executions)` is called instead of `wants`, once for the batch.
- `hear_all(events)` takes the batch; all its events are of one kind.
- `hear_executions(kind, executions)` takes the executions instead of their events, which need not be created then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, TypeAlias, cast

_log = logging.getLogger("mainspring.observe")

Observer: TypeAlias = Callable[[Any], None]
Wants: TypeAlias = Callable[[type, Any], bool]


class Dispatcher:
    """Calls every observer with the events it hears. Each type of error of an observer is logged once."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = list(observers)
        self._logged: set[tuple[int, int]] = set()
        self._by_kind: dict[type, tuple[Observer, ...]] = {}
        self._choosy_by_kind: dict[type, tuple[tuple[Wants, ...], Dispatcher | None]] = {}

    def add(self, observer: Observer) -> None:
        self._observers.append(observer)
        self._by_kind, self._choosy_by_kind = {}, {}

    def wants(self, kind: type, execution: Any) -> Dispatcher | None:
        """The dispatcher to call with the event of this kind about this execution, or None if no observer wants it and
        it need not be created. Only for frequent events; all others are dispatched without asking."""
        found = self._choosy_by_kind.get(kind)
        choosy, others = self._split(kind) if found is None else found
        wants = None
        try:
            for wants in choosy:
                if wants(kind, execution):
                    return self
        except BaseException as error:  # an observer that fails to answer gets the event
            self._log_once(getattr(wants, "__self__", wants), error)
            return self
        return others

    def __call__(self, event: Any) -> None:
        for observer in self._observers_of(type(event)):
            try:
                observer(event)
            except BaseException as error:
                self._log_once(observer, error)

    def dispatch_all(self, kind: type, executions: Sequence[Any], make: Callable[[], Sequence[Any]]) -> None:
        """Dispatch a batch of frequent events. `make` creates one for each execution; it is called if any is wanted."""
        events: Sequence[Any] | None = None
        for observer in self._observers_of(kind):
            if hasattr(observer, "hear_executions"):
                self._pass_executions(observer, kind, executions)
                continue
            wanted = self._wanted(observer, kind, executions)
            if wanted:
                events = make() if events is None else events
                self._pass_all(observer, events if wanted is True else list(compress(events, wanted)))

    def _pass_executions(self, observer: Any, kind: type, executions: Sequence[Any]) -> None:
        try:
            observer.hear_executions(kind, executions)
        except BaseException as error:
            self._log_once(observer, error)

    def _wanted(self, observer: Any, kind: type, executions: Sequence[Any]) -> Sequence[bool] | bool:
        """True for all of them, False for none, or one answer for each. An observer that fails to answer gets all."""
        wants_any, wants = getattr(observer, "wants_any", None), getattr(observer, "wants", None)
        try:
            if wants_any is not None:
                return bool(wants_any(kind, executions))
            if wants is not None:
                each = [wants(kind, execution) for execution in executions]
                return each if any(each) else False
        except BaseException as error:
            self._log_once(observer, error)
        return True

    def _pass_all(self, observer: Any, events: Sequence[Any]) -> None:
        hear_all = getattr(observer, "hear_all", None)
        hear, given = (observer, events) if hear_all is None else (hear_all, (events,))
        for each in given:
            try:
                hear(each)
            except BaseException as error:
                self._log_once(observer, error)

    def _observers_of(self, kind: type) -> tuple[Observer, ...]:
        found = self._by_kind.get(kind)
        if found is None:
            known = self._by_kind  # `add` in another thread replaces the dictionary meanwhile
            found = known[kind] = tuple(each for each in list(self._observers) if self._hears(each, kind))
        return found

    def _split(self, kind: type) -> tuple[tuple[Wants, ...], Dispatcher | None]:
        """The `wants` methods of observers that have one, and a dispatcher to all others, if there are any."""
        known, observers = self._choosy_by_kind, self._observers_of(kind)
        choosy = tuple(each.wants for each in cast(Any, observers) if hasattr(each, "wants"))
        others = Dispatcher(*(each for each in observers if not hasattr(each, "wants")))
        others._logged = self._logged
        found = known[kind] = (choosy, others if len(choosy) < len(observers) else None)
        return found

    def _hears(self, observer: Observer, kind: type) -> bool:
        hears: Callable[[type], bool] | None = getattr(observer, "hears", None)
        try:
            return hears is None or hears(kind)
        except BaseException as error:
            self._log_once(observer, error)
            return True

    def _log_once(self, observer: object, error: BaseException) -> None:
        """An observer that calls `sys.exit` does not end the process, and one that lets a `CancelledError` out does not
        end the loop of a role. Only Ctrl-C gets through."""
        if type(error) is KeyboardInterrupt:
            raise error
        kind = (id(observer), id(type(error)))
        if kind in self._logged:
            return
        self._logged.add(kind)
        try:
            name = getattr(observer, "__qualname__", type(observer).__qualname__)
            _log.exception("observer %s failed; jobs go on without it", name)
        except BaseException:
            return  # the error may come from logging itself, or be one that cannot be formatted
