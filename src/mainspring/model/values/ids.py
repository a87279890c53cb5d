"""Time-ordered UUIDs: 48 bits of milliseconds, then chance, or a hash of the cause. Random ones are ordered by the
microsecond: its place within the millisecond comes before chance.

The same cause always gives the same id, so a step that is repeated after a crash writes the same row.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from ..time.instants import Micros

LENGTH, ENDING = 36, 12
_AT_ONCE = 100
_PLACES = [f"{micros * 4096 // 1000:03x}-" for micros in range(1000)]
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))


class Chance(Protocol):
    """The part of `random.Random` that ids and jitter need."""

    def randbytes(self, n: int, /) -> bytes: ...
    def random(self) -> float: ...


class NoChance:
    """For executions whose id is derived from their cause: asking for randomness is a mistake."""

    def randbytes(self, n: int, /) -> bytes:
        raise AssertionError("this execution has a derived id")

    def random(self) -> float:
        raise AssertionError("this execution has a derived id")


NO_CHANCE = NoChance()


def random_id(now: Micros, chance: Chance) -> str:
    millis, micros = divmod(now, 1000)
    time, luck = f"{millis & 0xFFFFFFFFFFFF:012x}", chance.randbytes(8)
    tail = luck.hex()
    return f"{time[:8]}-{time[8:]}-7{micros * 4096 // 1000:03x}-{'89ab'[luck[7] & 3]}{tail[:3]}-{tail[3:15]}"


class RandomIds:
    """The same for many ids: random bits are drawn for a hundred at a time, and the common prefix of a millisecond is
    rendered once."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._luck: list[str] = []
        self._millis, self._time = -1, ""

    def at(self, now: Micros) -> str:
        millis, micros = divmod(now, 1000)
        if millis != self._millis:
            self._millis, self._time = millis, _time_of(millis)
        if not self._luck:
            self._luck = self._tails(_AT_ONCE)
        return f"{self._time}{_PLACES[micros]}{self._luck.pop()}"

    def following(self, now: Micros, count: int) -> list[str]:
        """One id for each microsecond, starting with this one."""
        made: list[str] = []
        tails = iter(self._tails(count))
        while len(made) < count:
            millis, micros = divmod(now + len(made), 1000)
            time = _time_of(millis)
            made += [f"{time}{place}{tail}" for place, tail in zip(_PLACES[micros:], tails, strict=False)]
        return made

    def _tails(self, count: int) -> list[str]:
        """The second half of an id: random, except for the two bits of the variant."""
        luck = bytearray(self._chance.randbytes(2 * count))
        luck[::2] = luck[::2].translate(_VARIANT)
        begins, ends = luck.hex("-", 2).split("-"), self._chance.randbytes(6 * count).hex("-", 6).split("-")
        return [f"{begin}-{end}" for begin, end in zip(begins, ends, strict=True)]


def _time_of(millis: int) -> str:
    time = f"{millis & 0xFFFFFFFFFFFF:012x}"
    return f"{time[:8]}-{time[8:]}-7"


def first_id(at: Micros) -> str:
    """Less than every id of this millisecond, greater than all before it."""
    digits = f"{max(at, 0) // 1000 & 0xFFFFFFFFFFFF:012x}"
    return f"{digits[:8]}-{digits[8:]}"


def time_of_id(id: str) -> Micros:
    """The time that an id begins with.

    >>> time_of_id("018bcfe5-6800-7000-8000-000000000000")
    1700000000000000
    """
    return int(id.replace("-", "")[:12], 16) * 1000


def short_id(id: str) -> str:
    """The end of an id, where ids differ: they begin with the time. People read it; commands find executions by it.

    >>> short_id("019a1b2c-3d4e-7f00-8a1b-0123456789ab")
    '…0123456789ab'
    """
    return f"…{id[-ENDING:]}" if len(id) == LENGTH else id


def tick_id(job_id: str, tick: Micros, kind: str = "tick") -> str:
    """The id of the execution of a job at one instant."""
    return _format(tick // 1000, _hash(job_id, kind, str(tick)), version=8)


def follow_up_id(cause_id: str, *parts: str) -> str:
    """The id of an execution that follows from another: a child, a dependent, a retry."""
    return _format(int(cause_id.replace("-", "")[:12], 16), _hash(cause_id, *parts), version=8)


def event_id(at: Micros, *parts: str) -> str:
    """The id of what follows from an event: of the instant at which it happened, whatever it happened to."""
    return _format(at // 1000, _hash("event", *parts), version=8)


def tenant_id(parent_id: str, tenant: str, position: int) -> str:
    """The id of a tenant's part in a parent: by its position in the parent's list of tenants, because executions that
    are ready at the same time are claimed in the order of their ids. It comes right before that of the parent: the
    newest execution of a job is then the parent itself, and lists that begin with the newest name it first."""
    millis = int(parent_id.replace("-", "")[:12], 16)
    high, low = divmod(position, 256)  # the digit between them is the variant of the UUID
    return _format(max(millis - 1, 0), f"{high:03x}0{low:02x}{_hash(parent_id, 'tenant', tenant)}"[:20], version=8)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _format(millis: int, tail: str, version: int) -> str:
    digits = f"{millis & 0xFFFFFFFFFFFF:012x}{version:x}{tail}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
