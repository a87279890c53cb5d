"""Events to observers: in order, and never letting one of them stop a job."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("mainspring.observe")


class Fanout:
    """Calls every observer with every event. What an observer raises is logged once per kind, and forgotten."""

    def __init__(self, *observers: Callable[[Any], None]) -> None:
        self._observers = list(observers)
        self._complained: set[tuple[int, type]] = set()

    def add(self, observer: Callable[[Any], None]) -> None:
        self._observers.append(observer)

    def hears(self, kind: type) -> bool:
        """Whether anybody wants events of this kind. An observer that does not say (`hears(kind)`) wants all."""
        for observer in self._observers:
            hears: Callable[[type], bool] | None = getattr(observer, "hears", None)
            if hears is None or hears(kind):
                return True
        return False

    def __call__(self, event: Any) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:
                self._complain(observer, error)

    def _complain(self, observer: object, error: Exception) -> None:
        kind = (id(observer), type(error))
        if kind in self._complained:
            return
        self._complained.add(kind)
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        try:
            _log.exception("observer %s failed; jobs go on without it", name)
        except Exception:
            return  # it may be logging itself that fails
