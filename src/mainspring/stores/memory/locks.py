"""Named locks: held until released or until their time is over, whichever comes first."""

from __future__ import annotations

from msgspec.structs import replace

from ...model.store.messages import LockRow
from ...model.time.instants import Micros, seconds_to_micros


class LockTable:
    def __init__(self) -> None:
        self._rows: dict[str, LockRow] = {}
        self._token = 0

    def held(self, now: Micros) -> list[LockRow]:
        return [self._rows[name] for name in sorted(self._rows) if self._rows[name].expires > now]

    def take(self, name: str, owner: str, ttl: float, now: Micros) -> LockRow | None:
        if self._holding(name, None, now):
            return None
        self._token += 1
        expires = now + seconds_to_micros(ttl)
        row = LockRow(name=name, owner=owner, token=self._token, acquired=now, expires=expires)
        self._rows[name] = row
        return row

    def expire(self, name: str, token: int | None, seconds: float, now: Micros) -> bool:
        """Let a held lock end so many seconds from now; 0 ends it at once."""
        row = self._holding(name, token, now)
        if row is None:
            return False
        self._rows[name] = replace(row, expires=now + seconds_to_micros(seconds))
        return True

    def prune(self, now: Micros) -> None:
        """Forget locks whose time is over."""
        self._rows = {name: row for name, row in self._rows.items() if row.expires > now}

    def _holding(self, name: str, token: int | None, now: Micros) -> LockRow | None:
        row = self._rows.get(name)
        held = row is not None and row.expires > now and token in (None, row.token)
        return row if held else None
