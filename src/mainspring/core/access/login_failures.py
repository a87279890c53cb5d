"""Failed logins, counted together by all processes of one store, so that more servers do not allow more guesses.

Failures are kept in a fixed number of entries, each shared by many addresses. Every write drops what is older than a
minute, so there is nothing to clean up and no attacker can make them grow. Addresses are stored as hashes.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros
from ..ports import Store

KIND: Literal["logins"] = "logins"
WINDOW = 60 * SECOND
ENTRIES = 256
MOST_PER_ENTRY = 50
TRIES = 5
"""How often a write may lose to another process. After that the failure is not counted across processes."""

_Times = dict[str, list[Micros]]


class LoginFailures:
    """Counts failed logins by address across processes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, address: str, limit: int) -> float:
        """Count a failure. Returns how many seconds logins from there are blocked; 0 below `limit` failures."""
        digest = hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()
        key, name = f"{int(digest[:8], 16) % ENTRIES:03d}", digest[8:40]
        for _ in range(TRIES):
            found = next(iter(await self._store.entries(KIND, "", [key])), None)
            now = await self._store.now()
            known = {} if found is None else msgspec.json.decode(found.body, type=_Times)
            times = _with_one_more(known, name, now, limit)
            body = msgspec.json.encode(times).decode()
            entry, seen = Entry(kind=KIND, key=key, body=body), 0 if found is None else found.version
            if (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen)]))[0]:
                return _wait(times[name], now, limit)
        return 0.0


def _with_one_more(known: _Times, name: str, now: Micros, limit: int) -> _Times:
    """When there are too many addresses, those whose last failure is oldest are dropped. A failure that another process
    counted by a clock that is ahead of this one's is as old as one of now."""
    recent = {
        each: kept for each, times in known.items() if (kept := [min(at, now) for at in times if at > now - WINDOW])
    }
    recent[name] = [*recent.get(name, ()), now][-limit:]
    newest = sorted(recent, key=lambda each: recent[each][-1], reverse=True)[:MOST_PER_ENTRY]
    return {each: recent[each] for each in {*newest, name}}


def _wait(times: list[Micros], now: Micros, limit: int) -> float:
    return 0.0 if len(times) < limit else (times[0] + WINDOW - now) / SECOND
