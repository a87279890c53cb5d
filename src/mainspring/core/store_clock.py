"""The store's time, as well as this process can know it.

The store alone judges leases and due times. For what a process writes itself (created, started, ended) it takes the
last time that the store reported, and counts on from there by the monotonic clock: setting the machine's clock moves
nothing.

Code that receives the store's time passes it on to `observe`, which notices when that clock was set or this machine
slept: then sleeps that were planned by the old time end.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..model.events import ClockJumped, SkewNoticed
from ..model.time.instants import SECOND, Micros
from .loops import Emit
from .ports import Clock, Store

SKEW_LIMIT = 2.0
JUMP_LIMIT = 2.0
FRESH_FOR = 60.0
TRIES = 3
SKEW_WARNING_EVERY = 3_600.0
JUMP_WARNING_EVERY = 60.0
"""Seconds for which the same warning is not given again."""


class _Observation(msgspec.Struct, frozen=True):
    """The store's time, the monotonic time at which it arrived, and how many seconds old it may have been by then."""

    now: Micros
    at: float
    unsure: float


class StoreClock:
    """A `Clock` that follows the store's. Before the first observation it is the machine's own."""

    def __init__(self, clock: Clock, emit: Emit) -> None:
        self._clock, self._emit = clock, emit
        self.monotonic = clock.monotonic
        self._heard: _Observation | None = None
        self._warned: dict[type, float] = {}
        self.skew = 0.0
        """Seconds by which the machine's clock was ahead of the store's when it last reported its time; 0 if the
        difference is within what is tolerated."""
        self.on_jump: Callable[[], None] = lambda: None
        """Called when the store's time and the monotonic clock have diverged."""

    async def ask(self, store: Store) -> None:
        """Ask the store. A slow answer says little about the time now, so the store is asked again."""
        for left in reversed(range(TRIES)):
            asked = self._clock.monotonic()
            now = await store.now()
            quick = self._clock.monotonic() - asked <= SKEW_LIMIT
            if quick or not left:
                self.observe(now, asked if quick else None)
                return

    async def follow(self, store: Store) -> None:
        """Ask if the last answer is old. Heartbeats carry the time; a process without them notices a jump only here."""
        if not self.fresh:
            await self.ask(store)

    @property
    def fresh(self) -> bool:
        return self._heard is not None and self.monotonic() - self._heard.at <= FRESH_FOR

    def observe(self, store_now: Micros, asked: float | None = None) -> None:
        """The store has reported its time. `asked` is the monotonic time of the question: the store may have read its
        clock at any moment since, so an answer that took too long is ignored."""
        here = self._clock.monotonic()
        unsure = 0.0 if asked is None else here - asked
        if self._heard is not None and unsure > SKEW_LIMIT:
            return
        before, self._heard = self._heard, _Observation(store_now, here, unsure)
        self._notice_skew((self._clock.now() - store_now) / SECOND, unsure)
        if before is not None:
            passed = (store_now - before.now) / SECOND
            self._notice_jump(passed - (here - before.at), unsure + before.unsure)

    def now(self) -> Micros:
        if self._heard is None:
            return self._clock.now()
        return self._heard.now + round((self.monotonic() - self._heard.at) * SECOND)

    def _notice_skew(self, skew: float, unsure: float) -> None:
        self.skew = skew if abs(skew) > SKEW_LIMIT + unsure else 0.0
        if self.skew:
            self._warn(SkewNoticed(skew), SKEW_WARNING_EVERY)

    def _notice_jump(self, gap: float, unsure: float) -> None:
        if abs(gap) > JUMP_LIMIT + unsure:
            self._warn(ClockJumped(gap), JUMP_WARNING_EVERY)
            self.on_jump()

    def _warn(self, event: SkewNoticed | ClockJumped, every: float) -> None:
        last, here = self._warned.get(type(event)), self._clock.monotonic()
        if last is None or here - last >= every:
            self._warned[type(event)] = here
            self._emit(event)
