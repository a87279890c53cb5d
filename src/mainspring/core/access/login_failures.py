"""Failed logins that all processes of one store count together, so that more servers do not mean more guesses.

Only failures come here. They lie on the shelf in a fixed number of entries, each for many addresses, from which what is
older than a minute goes with the next write: there is nothing to clean up, and no stranger can make it grow. Addresses
are kept as hashes.
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
"""Writes of one entry that may be lost to others at the same instant. Then this failure is not counted together."""

_Times = dict[str, list[Micros]]


class LoginFailures:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, address: str, limit: int) -> float:
        """Count one more; the seconds for which nobody may log in from there, 0 while there were fewer than `limit`."""
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
    """Of more addresses than there is room for, those that failed longest ago go."""
    recent = {each: kept for each, times in known.items() if (kept := [at for at in times if now - WINDOW < at <= now])}
    recent[name] = [*recent.get(name, ()), now][-limit:]
    newest = sorted(recent, key=lambda each: recent[each][-1], reverse=True)[:MOST_PER_ENTRY]
    return {each: recent[each] for each in {*newest, name}}


def _wait(times: list[Micros], now: Micros, limit: int) -> float:
    return 0.0 if len(times) < limit else (times[0] + WINDOW - now) / SECOND
