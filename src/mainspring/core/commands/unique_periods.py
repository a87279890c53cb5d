"""Uniqueness for a period, and debounce: what keys on live executions cannot do, because it outlives them.

An entry on the shelf says which execution holds a key, and until when. For a period the entry comes first: who puts it
there may enqueue. It is made sure once the execution is stored; an entry that nobody made sure is one whose process
died, and whoever comes next looks whether its execution exists. To debounce, the execution comes first, the entry
names it, and whoever it named before is cancelled if it has not begun: a crash in between lets two run, and loses none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.policies import Unique
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Change
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.payload import presentable
from ..cancelling import cancelled
from ..expiry import EntryExpiry
from ..loops import Emit
from ..ports import Clock, Store
from ..rules import transitions

KIND: Literal["unique"] = "unique"
UNSURE_FOR = 10 * SECOND

Add = Callable[[ExecutionRow], Awaitable[ExecutionRow | None]]


class _Held(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    until: Micros
    since: Micros
    sure: bool = False


class UniquePeriods:
    def __init__(self, store: Store, clock: Clock, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self.pruning = EntryExpiry(store, clock, KIND, lambda entry, now: _read(entry).until < now)

    async def enqueue(self, execution: ExecutionRow, unique: Unique, add: Add) -> ExecutionRow | None:
        """Add it as its period says; None when the key is taken."""
        await self.pruning.now_and_then()
        if unique.debounce is not None:
            return await self._debounced(execution, unique, add)
        return await self._for_a_period(execution, unique, add)

    # --- for a period -------------------------------------------------------------------------------------
    async def _for_a_period(self, execution: ExecutionRow, unique: Unique, add: Add) -> ExecutionRow | None:
        place, now = _place(unique), await self._store.now()
        held = _Held(execution.id, now + seconds_to_micros(float(unique.for_ or 0)), now)
        version = await self._take(place, held)
        if version is None:
            return None
        added = await add(execution)
        if added is None:  # what holds the key is alive since before this period
            entry = Entry(kind=KIND, key=place)
            await self._store.write_entries([EntryWrite(entry=entry, seen_version=version, remove=True)])
            return None
        await self._put(place, msgspec.structs.replace(held, sure=True), version)
        return added

    async def _take(self, place: str, held: _Held) -> int | None:
        """The version of our entry; None when another one holds the key."""
        while True:
            found = await self._find(place)
            if found is not None and await self._holds(found, held.since):
                return None
            version = 0 if found is None else found.version
            if await self._put(place, held, version):
                return version + 1

    async def _holds(self, found: Entry, now: Micros) -> bool:
        other = _read(found)
        if other.until < now:
            return False
        if other.sure or other.since > now - UNSURE_FOR:
            return True
        return await self._store.execution(other.id) is not None

    # --- debounce -----------------------------------------------------------------------------------------
    async def _debounced(self, execution: ExecutionRow, unique: Unique, add: Add) -> ExecutionRow | None:
        now = await self._store.now()
        due = now + seconds_to_micros(float(unique.debounce or 0))
        added = await add(msgspec.structs.replace(execution, due=due))
        if added is None or added.state is not State.PENDING:
            return added
        place, held = _place(unique), _Held(execution.id, due, now, sure=True)
        while True:
            found = await self._find(place)
            if await self._put(place, held, 0 if found is None else found.version):
                break
        if found is not None:
            await self._give_way(_read(found).id, execution.id, now)
        return added

    async def _give_way(self, id: str, newer: str, now: Micros) -> None:
        """What has begun goes on."""
        older = await self._store.execution(id)
        if older is None or older.state is not State.PENDING or older.token or older.id == newer:
            return
        change = transitions.cancel(older, now, f"debounced: {newer} takes its place")
        if isinstance(change, Change) and (await self._store.exchange([change], None)).applied[0]:
            self._emit(cancelled(older, change))

    # --- the shelf ----------------------------------------------------------------------------------------
    async def _find(self, place: str) -> Entry | None:
        return next(iter(await self._store.entries(KIND, "", [place])), None)

    async def _put(self, place: str, held: _Held, seen_version: int) -> bool:
        entry = Entry(kind=KIND, key=place, body=msgspec.json.encode(held).decode())
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen_version)]))[0]


def check_lasting(unique: Unique, connection: Any, start_at: Any) -> None:
    """A period is the store's own affair, in steps of its own; and a debounced start is not for the caller to say."""
    if connection is not None:
        raise InvalidValue("unique", presentable(unique), "no period inside a transaction of the caller")
    if unique.debounce is not None and start_at is not None:
        raise InvalidValue("start_at", presentable(start_at), "nothing together with debounce, which says when")


def refuse_lasting(unique: Any) -> None:
    if isinstance(unique, Unique) and unique.lasting:
        raise InvalidValue("unique", presentable(unique), "keys without a period, when many are enqueued at once")


def _place(unique: Unique) -> str:
    """A key may be long and hold anything printable; on the shelf it is short."""
    return hashlib.sha256((unique.enqueued or "").encode()).hexdigest()


def _read(entry: Entry) -> _Held:
    return msgspec.json.decode(entry.body, type=_Held)
