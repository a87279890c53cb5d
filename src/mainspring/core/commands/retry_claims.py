"""Who retries an ended execution: of several who ask at the same instant, one.

The key that a retry holds while it is alive says nothing once it has ended. So an entry on the shelf counts the retries
of an execution. Whoever retries looks at it first, and takes the next number by compare-and-set before anything is
added: who looked before another one took it is refused, however quickly the other retry has come and gone. Who looks
afterwards knows of that retry, and may ask for one more once it has ended.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ...model.errors import CommandRefused
from ...model.execution import ExecutionRow
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros
from ..expiry import EntryExpiry
from ..ports import Clock, Store
from ..queries.queries import EXECUTION_ID

KIND: Literal["retry"] = "retry"
KEPT_FOR = 3600 * SECOND
"""Longer than any request is under way."""


class _Last(msgspec.Struct, frozen=True):
    """The last retry of an execution."""

    id: str
    at: Micros


class RetryClaims:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.pruning = EntryExpiry(store, clock, KIND, _is_old)

    async def look(self, ended: str) -> int:
        """How many retries of this execution there were so far; what is no id has none."""
        found = await self._find(ended) if EXECUTION_ID.fullmatch(ended) else None
        return 0 if found is None else found.version

    async def take(self, retry: ExecutionRow, seen: int, now: Micros) -> None:
        """Refuse this retry if there was another one since the look that saw so many."""
        await self.pruning.now_and_then()
        ended = retry.retry_of or ""
        entry = Entry(kind=KIND, key=ended, body=msgspec.json.encode(_Last(retry.id, now)).decode())
        if (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen)]))[0]:
            return
        found = await self._find(ended)
        other = "" if found is None else f", as execution {_read(found).id}"
        raise being_retried(ended, f"being retried already{other}")

    async def _find(self, ended: str) -> Entry | None:
        return next(iter(await self._store.entries(KIND, "", [ended])), None)


def being_retried(ended: str | None, state: str, command: str = "retry") -> CommandRefused:
    return CommandRefused(command, state, ["that one has ended"], f"execution {ended}")


def _read(entry: Entry) -> _Last:
    return msgspec.json.decode(entry.body, type=_Last)


def _is_old(entry: Entry, now: Micros) -> bool:
    return _read(entry).at < now - KEPT_FOR
