"""Uniqueness for a period, and debounce: what keys of live executions cannot do, because it outlives them.

An entry in the store names the execution that holds a key, and until when. For a period, the entry is written first and
marked `stored` once the execution is in the store. An unmarked entry is left by a process that died in between, or one
that still stands there. The next caller decides which of the two it is by the id that the entry names: it records a
cancelled execution under it. If that succeeds, the other process can never store its own, however late it comes, and
the key is free; if the id is known already, the key is held.

For a debounce, the execution is stored first, then the entry names it, and the execution that it named before is
cancelled if it has not begun. A crash in between runs both and loses none.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.policies import Unique
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Change
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.payload import presentable
from ..cancelling import ended_while_waiting
from ..expiry import EntryExpiry
from ..loops import Emit
from ..ports import Clock, Store
from ..rules import transitions

KIND: Literal["unique"] = "unique"
UNSURE_FOR = 10 * SECOND
GIVEN_UP = "its process took the unique key and did not store the execution in time"


class _Held(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    until: Micros
    since: Micros
    stored: bool = msgspec.field(name="sure", default=False)


class PeriodClaim(msgspec.Struct, frozen=True):
    """A key that was free, taken for an execution that is about to be stored."""

    entry_key: str
    held: _Held
    version: int


class UniquePeriods:
    def __init__(self, store: Store, clock: Clock, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self.expiry = EntryExpiry(store, clock, KIND, lambda entry, now: _read(entry).until < now)

    # --- for a period -------------------------------------------------------------------------------------
    async def claim(self, execution: ExecutionRow, unique: Unique) -> PeriodClaim | None:
        """Take the key for the period; None when another execution holds it."""
        await self.expiry.now_and_then()
        key, now = _entry_key(unique), await self._store.now()
        held = _Held(execution.id, now + seconds_to_micros(float(unique.for_ or 0)), now)
        while True:
            found = await self._find(key)
            if found is not None and await self._holds(found, execution, now):
                return None
            version = 0 if found is None else found.version
            if await self._put(key, held, version):
                return PeriodClaim(key, held, version + 1)

    async def confirm(self, claim: PeriodClaim) -> None:
        """The execution is stored."""
        await self._put(claim.entry_key, msgspec.structs.replace(claim.held, stored=True), claim.version)

    async def release(self, claim: PeriodClaim) -> None:
        """The execution was not stored: one that was live before the period holds the key."""
        entry = Entry(kind=KIND, key=claim.entry_key)
        await self._store.write_entries([EntryWrite(entry=entry, seen_version=claim.version, remove=True)])

    async def given_up(self, id: str) -> bool:
        """Whether another caller has recorded this execution as cancelled before it could be stored."""
        found = await self._store.execution(id)
        return found is not None and found.reason == GIVEN_UP

    async def _holds(self, found: Entry, execution: ExecutionRow, now: Micros) -> bool:
        other = _read(found)
        if other.until < now:
            return False
        if other.stored or other.since > now - UNSURE_FOR:
            return True
        [added] = await self._store.add([_cancelled_before_stored(execution, other, now)])
        return added.outcome != "added" and not await self.given_up(other.id)

    # --- debounce -----------------------------------------------------------------------------------------
    async def delayed(self, execution: ExecutionRow, unique: Unique) -> ExecutionRow:
        """The execution, due when the quiet time is over."""
        await self.expiry.now_and_then()
        quiet = seconds_to_micros(float(unique.debounce or 0))
        return msgspec.structs.replace(execution, due=await self._store.now() + quiet)

    async def replace_older(self, newest: ExecutionRow, unique: Unique) -> None:
        """Cancel the execution that this stored one replaces, unless it has begun."""
        key, now = _entry_key(unique), await self._store.now()
        held = _Held(newest.id, newest.due, now, stored=True)
        while True:
            found = await self._find(key)
            if await self._put(key, held, 0 if found is None else found.version):
                break
        older = None if found is None else await self._store.execution(_read(found).id)
        if older is None or older.state is not State.PENDING or older.token or older.id == newest.id:
            return
        change = transitions.cancel(older, now, f"debounced: {newest.id} takes its place")
        if isinstance(change, Change) and (await self._store.exchange([change], None)).applied[0]:
            self._emit(ended_while_waiting(older, change))

    # --- entries ------------------------------------------------------------------------------------------
    async def _find(self, key: str) -> Entry | None:
        return next(iter(await self._store.entries(KIND, "", [key])), None)

    async def _put(self, key: str, held: _Held, seen_version: int) -> bool:
        entry = Entry(kind=KIND, key=key, body=msgspec.json.encode(held).decode())
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen_version)]))[0]


def check_lasting(unique: Unique, connection: Any, start_at: Any) -> None:
    """A period needs commits of its own, and a debounce sets the start itself."""
    if connection is not None:
        raise InvalidValue("unique", presentable(unique), "no period inside a transaction of the caller")
    if unique.debounce is not None and start_at is not None:
        raise InvalidValue("start_at", presentable(start_at), "nothing together with debounce, which says when")


def refuse_lasting(unique: Any) -> None:
    if isinstance(unique, Unique) and unique.lasting:
        raise InvalidValue("unique", presentable(unique), "keys without a period, when many are enqueued at once")


def _cancelled_before_stored(execution: ExecutionRow, other: _Held, now: Micros) -> ExecutionRow:
    """A record under the id of the other one, which is not known: this one asked for the same key."""
    keys: dict[str, Any] = dict.fromkeys(("unique_key", "overlap_key", "running_unique_key", "running_overlap_key"))
    return msgspec.structs.replace(
        execution,
        id=other.id,
        trace_id=other.id.replace("-", ""),
        created=other.since,
        due=other.since,
        state=State.CANCELLED,
        reason=GIVEN_UP,
        finished=now,
        params="{}",
        staged=False,
        share=None,
        limits=None,
        **keys,
    )


def _entry_key(unique: Unique) -> str:
    """A unique key may be long and hold any printable character; keys of entries are short."""
    return hashlib.sha256((unique.enqueued or "").encode()).hexdigest()


def _read(entry: Entry) -> _Held:
    return msgspec.json.decode(entry.body, type=_Held)
