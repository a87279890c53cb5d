"""Failed logins are counted by address; after too many of them nobody logs in from there for a while.

Only wrong credentials count, not missing ones. The memory is bounded: of more addresses than `MOST_ADDRESSES` those
that failed longest ago are forgotten. A success forgives nothing, so one right token does not buy more guesses.

Each process counts for itself, and all of one store together: a failure is put into the store too, which says whether
the address has used up its failures elsewhere. Nothing but a failure asks the store, and what it does not answer soon
changes nothing: the door is then as open or shut as this process alone can tell.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from .refusals import Refused

LOG = logging.getLogger("mainspring.access")

WINDOW = 60.0
MOST_ADDRESSES = 10_000
PATIENCE = 1.0
"""Seconds to wait for what the store says of a failure."""
MOST_AT_ONCE = 20
"""Failures that are told to the store at the same time; more are counted here alone."""


@runtime_checkable
class FailureSource(Protocol):
    """The application object: it knows the failures of all processes."""

    async def note_failed_login(self, address: str, limit: int) -> float: ...


class FailedLogins:
    def __init__(self, limit: int, monotonic: Callable[[], float], shared: FailureSource | None = None) -> None:
        self._limit, self._monotonic, self._shared = limit, monotonic, shared
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._telling: set[asyncio.Task[float]] = set()

    def check(self, key: str) -> None:
        """Refuse when this address has used up its failures for now."""
        times = self._times.get(key)
        if times is None or len(times) < self._limit:
            return
        wait = times[0] + WINDOW - self._monotonic()
        if wait > 0:
            seconds = math.ceil(wait)
            message = f"too many failed logins from this address; try again in {seconds} s"
            raise Refused(429, "too_many_failed_logins", message, {"Retry-After": str(seconds)})

    def add(self, key: str) -> None:
        self._note(key, [self._monotonic()])

    async def share(self, key: str) -> None:
        """Count it with those of all processes too."""
        if self._shared is None or len(self._telling) >= MOST_AT_ONCE:
            return
        telling = asyncio.ensure_future(self._shared.note_failed_login(key, self._limit))
        self._telling.add(telling)
        telling.add_done_callback(self._told)
        await asyncio.wait({telling}, timeout=PATIENCE)
        if telling.done() and not telling.cancelled() and telling.exception() is None and telling.result() > 0:
            self._note(key, [self._monotonic() + telling.result() - WINDOW] * self._limit)

    def _told(self, telling: asyncio.Task[float]) -> None:
        self._telling.discard(telling)
        if not telling.cancelled() and (error := telling.exception()) is not None:
            LOG.warning("a failed login is counted in this process alone: %s", type(error).__name__)

    def _note(self, key: str, times: list[float]) -> None:
        self._times.setdefault(key, deque(maxlen=self._limit)).extend(times)
        self._times.move_to_end(key)
        while len(self._times) > MOST_ADDRESSES:
            self._times.popitem(last=False)
