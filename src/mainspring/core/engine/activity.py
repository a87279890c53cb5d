"""Counts what ends in this process, for charts of activity, and adds the counts to durable buckets.

`ActivityCounts` observes events: attempts that end an execution, parents whose tenants have ended, executions that were
cancelled while they waited, skipped and missed ticks, and rescues that end an execution. Windows that a backfill skips
have no event, and are not counted. Completed executions come in batches, and so cost next to nothing.

`ActivityRecorder` adds the counts about every ten seconds to entries that all processes share.

A crash loses the counts of the last ten seconds. If the answer of the store gets lost, they may be counted twice. A
process without a node adds its counts only when its application is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from ...model.events import AttemptEnded, Rescued, Skipped, Started
from ...model.execution import ExecutionRow, State
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import Micros
from ...model.values.ids import Chance
from ..loops import Emit, Loop, NothingAsked, stop_all
from ..ports import Clock, Store
from ..rules.activity import BUCKETS, Tally, is_counted, is_tick_beginning, total

KIND: EntryKind = "activity"
EVERY = 10.0
"""Seconds between two additions: up to a quarter more or less, so that processes do not add all at once."""
TRIES = 8
"""How often an addition is tried at once, while other processes add to the same bucket."""
FORGET_EVERY = 60.0
FORGOTTEN_AT_ONCE = 500
_HEARD = frozenset({Started, AttemptEnded, Skipped, Rescued})
_STEP = BUCKETS["1h"].step


class ActivityCounts:
    """An observer of the events of this process. Several threads may call it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gate = threading.Lock()
        self._tallies: dict[Micros, Tally] = {}

    def restart(self, clock: Clock) -> None:
        """Begin at zero: a forked child does not add what its parent has counted."""
        self._clock, self._gate, self._tallies = clock, threading.Lock(), {}

    def __bool__(self) -> bool:
        """Whether anything was counted since the last `take`."""
        return bool(self._tallies)

    def take(self) -> dict[Micros, Tally]:
        """What was counted since the last call, by the minute in which it happened."""
        with self._gate:
            taken, self._tallies = self._tallies, {}
        return taken

    # --- observing ----------------------------------------------------------------------------------------
    def hears(self, kind: type) -> bool:
        return kind in _HEARD

    def __call__(self, event: Any, /) -> None:
        if isinstance(event, Started):
            self._add_starts([event.execution])
        elif isinstance(event, Skipped):
            self._add_endings(State.SKIPPED, [event.execution])
        elif isinstance(event, AttemptEnded | Rescued) and event.state.final:
            self._add_endings(event.state, [event.execution])

    def hear_executions(self, kind: type, executions: Sequence[ExecutionRow]) -> None:
        """A batch of executions that have started or completed."""
        if kind is Started:
            self._add_starts(executions)
        else:
            self._add_endings(State.COMPLETED, executions)

    def _add_starts(self, executions: Sequence[ExecutionRow]) -> None:
        ticks = [each for each in executions if is_tick_beginning(each)]
        if ticks:
            now = self._clock.now()
            with self._gate:
                tally = self._tally(now)
                for each in ticks:
                    tally.began(now - each.due)

    def _add_endings(self, state: State, executions: Sequence[ExecutionRow]) -> None:
        count = sum(map(is_counted, executions))
        if count:
            with self._gate:
                self._tally(self._clock.now()).ended(state, count)

    def _tally(self, now: Micros) -> Tally:
        minute = now // _STEP * _STEP
        tally = self._tallies.get(minute)
        if tally is None:
            tally = self._tallies[minute] = Tally()
        return tally


class ActivityRecorder:
    """Adds the counts of this process to the entries. A node runs it; nothing is written while nothing ends."""

    def __init__(self, store: Store, counts: ActivityCounts, clock: Clock, chance: Chance, emit: Emit) -> None:
        self._store, self._counts, self._clock = store, counts, clock
        self._left: dict[tuple[str, str], Tally] = {}
        self._pause = EVERY * (0.75 + 0.5 * chance.random())
        self._next_forget = clock.monotonic() + FORGET_EVERY
        self._loop = Loop("activity", self._step, emit)

    def start(self) -> None:
        self._loop.start()

    async def stop(self, timeout: float) -> None:
        """What was counted since the last addition is left for `flush`."""
        await stop_all([self._loop], timeout)

    async def _step(self) -> float:
        if not self._counts and not self._left:
            return NothingAsked(self._pause)
        await self.flush()
        if self._clock.monotonic() >= self._next_forget:
            await self._forget()
            self._next_forget = self._clock.monotonic() + FORGET_EVERY
        return self._pause

    async def flush(self) -> None:
        """Add what was counted. What cannot be added now is added with the next counts."""
        for at, tally in self._counts.take().items():
            for buckets in BUCKETS.values():
                place = (buckets.scope, buckets.key_of(at))
                self._left[place] = total([self._left.get(place, Tally()), tally])
        for _ in range(TRIES):
            if not self._left:
                return
            await self._add()

    async def _add(self) -> None:
        writes = [write for buckets in BUCKETS.values() for write in await self._writes(buckets.scope)]
        won = await self._store.write_entries(writes) if writes else []
        for write, stored in zip(writes, won, strict=True):
            if stored:
                del self._left[write.entry.scope, write.entry.key]

    async def _writes(self, scope: str) -> list[EntryWrite]:
        keys = [key for each, key in self._left if each == scope]
        found = {entry.key: entry for entry in await self._store.entries(KIND, scope, keys)} if keys else {}
        writes = []
        for key in keys:
            entry = found.get(key) or Entry(kind=KIND, scope=scope, key=key)
            known = entry.read(Tally)
            if known is None:  # a newer release wrote it
                del self._left[scope, key]
                continue
            body = msgspec.json.encode(total([known, self._left[scope, key]])).decode()
            changed = msgspec.structs.replace(entry, body=body)
            writes.append(EntryWrite(entry=changed, seen_version=entry.version))
        return writes

    async def _forget(self) -> None:
        """Remove buckets that no span shows any more."""
        now = self._clock.now()
        for buckets in BUCKETS.values():
            before = buckets.key_of(now - buckets.kept)
            old = await self._store.list_entries(KIND, buckets.scope, before=before, limit=FORGOTTEN_AT_ONCE)
            if old:
                await self._store.write_entries(
                    [EntryWrite(entry=entry, seen_version=entry.version, remove=True) for entry in old]
                )
