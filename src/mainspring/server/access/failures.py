"""Failed logins are counted by address; after too many, logins from that address are refused for a while. Credentials
that were proven from there before stay accepted: a stranger behind the same proxy must not shut out its other users.

Only wrong credentials count, not missing ones. Memory is bounded: past `MOST_ADDRESSES`, the addresses that failed
longest ago are forgotten. A successful login does not reset the count, so one valid token does not buy more guesses.

Each process counts for itself, and all processes of one store together: a failure is also written to the store, which
answers whether the address has used up its failures elsewhere. Only failures ask the store; if it does not answer in
time, the count of this process alone decides.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from .principals import Refused

LOG = logging.getLogger("mainspring.access")

WINDOW = 60.0
MOST_ADDRESSES = 10_000
PATIENCE = 1.0
"""Seconds to wait for the answer of the store."""
KNOWN_FOR = 3600.0
"""Seconds for which a credential that was proven counts as known."""
MOST_KNOWN = 10_000
MOST_AT_ONCE = 20
"""Failures that are written to the store at the same time; more are counted in this process only."""


@runtime_checkable
class FailureSource(Protocol):
    """The application object: it knows the failures of all processes."""

    async def note_failed_login(self, address: str, limit: int) -> float: ...


class FailedLogins:
    def __init__(self, limit: int, monotonic: Callable[[], float], shared: FailureSource | None = None) -> None:
        self._limit, self._monotonic, self._shared = limit, monotonic, shared
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._sharing: set[asyncio.Task[float]] = set()

    def check(self, key: str) -> None:
        """Refuse an address that has used up its failures for now."""
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
        """Count the failure in the store too."""
        if self._shared is None or len(self._sharing) >= MOST_AT_ONCE:
            return
        sharing = asyncio.ensure_future(self._shared.note_failed_login(key, self._limit))
        self._sharing.add(sharing)
        sharing.add_done_callback(self._shared_with_all)
        await asyncio.wait({sharing}, timeout=PATIENCE)
        if sharing.done() and not sharing.cancelled() and sharing.exception() is None and sharing.result() > 0:
            self._note(key, [self._monotonic() + sharing.result() - WINDOW] * self._limit)

    def _shared_with_all(self, sharing: asyncio.Task[float]) -> None:
        self._sharing.discard(sharing)
        if not sharing.cancelled() and (error := sharing.exception()) is not None:
            LOG.warning("a failed login is counted in this process alone: %s", type(error).__name__)

    def _note(self, key: str, times: list[float]) -> None:
        self._times.setdefault(key, deque(maxlen=self._limit)).extend(times)
        self._times.move_to_end(key)
        while len(self._times) > MOST_ADDRESSES:
            self._times.popitem(last=False)


class KnownCredentials:
    """Credentials that were proven, each for the address that it came from. Only their digests are kept. They are still
    verified each time; what they are spared is the wait for the failures of others."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._proven: OrderedDict[bytes, float] = OrderedDict()

    def __contains__(self, item: tuple[str, str]) -> bool:
        proven = self._proven.get(_digest(*item))
        return proven is not None and self._monotonic() - proven < KNOWN_FOR

    def discard(self, key: str, credential: str) -> None:
        """Forget one that was revoked or has expired."""
        self._proven.pop(_digest(key, credential), None)

    def add(self, key: str, credential: str) -> None:
        digest = _digest(key, credential)
        self._proven[digest] = self._monotonic()
        self._proven.move_to_end(digest)
        while len(self._proven) > MOST_KNOWN:
            self._proven.popitem(last=False)


def _digest(key: str, credential: str) -> bytes:
    return hashlib.sha256(f"{key}\n{credential}".encode()).digest()
