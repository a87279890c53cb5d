"""The store's time, as well as this process can know it.

Leases and due times are judged by the store alone. For what a process writes itself (created, started, ended) it
carries the last time the store told, and counts on from there by the monotonic clock: setting the machine's clock
moves nothing.
"""

from __future__ import annotations

from ..model.events import SkewNoticed
from ..model.instants import SECOND, Micros
from .loop import Emit
from .ports import Clock, Store

SKEW_LIMIT = 2.0
FRESH_FOR = 60.0
TRIES = 3


class StoreTime:
    """A `Clock` that follows the store's. Before the first observation it is the machine's own."""

    def __init__(self, clock: Clock, emit: Emit) -> None:
        self._clock, self._emit = clock, emit
        self.monotonic = clock.monotonic
        self._seen: tuple[Micros, float] | None = None
        self._skewed = False

    async def ask(self, store: Store) -> None:
        """Ask the store. An answer that took long says little about the time now, and is asked for again."""
        for _ in range(TRIES):
            asked = self._clock.monotonic()
            self.observe(await store.now())
            if self._clock.monotonic() - asked <= SKEW_LIMIT:
                return

    async def follow(self, store: Store) -> None:
        """Ask if its last word is old. Heartbeats carry the time; a process that has none hears of a jump only here."""
        if self._seen is None or self._clock.monotonic() - self._seen[1] > FRESH_FOR:
            await self.ask(store)

    def observe(self, store_now: Micros) -> None:
        self._seen = (store_now, self._clock.monotonic())
        skew = (self._clock.now() - store_now) / SECOND
        if abs(skew) > SKEW_LIMIT and not self._skewed:
            self._emit(SkewNoticed(skew))
        self._skewed = abs(skew) > SKEW_LIMIT

    def now(self) -> Micros:
        if self._seen is None:
            return self._clock.now()
        told, at = self._seen
        return told + round((self.monotonic() - at) * SECOND)
