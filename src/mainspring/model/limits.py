"""Limits by key: how many executions under one key may run at once, and how many may begin per second, on all nodes
together.

A job says `limits=[Limit("crawl:{tenant}", concurrency=3), Limit("partner-api", rate="50/s", burst=10)]`. An execution
carries its limits with the key filled in, as JSON text, so that a store needs nothing but the row to judge it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from .errors import InvalidValue
from .values.reading import OptionFields, whole

MAX_LIMITS = 4
MAX_CONCURRENCY = 100_000
MAX_RATE = 100_000.0
MAX_BURST = 100_000
MAX_KEY = 200
_LONGEST = 1_000
"""The longest key, with its placeholders filled in, in characters."""
_PER = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")


class Limit(msgspec.Struct, metaclass=OptionFields, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A limit for all executions with the same `key`. `concurrency` is how many may run at once; `rate` is how many may
    start per second on average (`"50/s"`, `"100/m"`, or a number per second), and `burst` how many at one instant.

    In the key, `{tenant}`, `{job}`, `{queue}` and `{params.name}` are filled in for each execution.

    >>> Limit("partner-api", rate="120/m")
    Limit(key='partner-api', concurrency=None, rate=2.0, burst=1)
    """

    key: str
    """What the limit counts by. `{tenant}`, `{job}`, `{queue}` and `{params.name}` are filled in for each execution."""
    concurrency: int | None = None
    """How many executions with this key may run at once, on all processes together."""
    rate: float | str | None = None
    """How many executions with this key may start per second on average; also `"50/s"`, `"100/m"`, `"1000/h"`."""
    burst: int | None = None
    """How many of these may start at one instant."""

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not 1 <= len(self.key) <= _LONGEST or not self.key.isprintable():
            raise InvalidValue("limits.key", self.key, f"printable text of 1 to {MAX_KEY} characters")
        if (self.concurrency is None) == (self.rate is None):
            remedy = 'Write Limit("key", concurrency=3) or Limit("key", rate="50/s"); give both as two limits'
            raise InvalidValue("limits", self.key, "a limit with either concurrency or rate", remedy)
        if self.concurrency is not None:
            whole("limits.concurrency", self.concurrency, 1, MAX_CONCURRENCY)
            if self.burst is not None:
                raise InvalidValue("limits.burst", self.burst, "no burst together with concurrency")
            return
        rate = per_second(self.rate)
        burst = max(1, math.ceil(rate / 10)) if self.burst is None else self.burst
        msgspec.structs.force_setattr(self, "rate", rate)
        msgspec.structs.force_setattr(self, "burst", whole("limits.burst", burst, 1, MAX_BURST))

    @property
    def per_second(self) -> float | None:
        """`rate` as a number per second; None for a limit of concurrency."""
        return self.rate  # type: ignore[return-value]  # made a number above


def per_second(value: Any) -> float:
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        value = float(found[1]) / _PER[found[2]]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MAX_RATE:
        allowed = f'a rate such as "50/s", "100/m", "1000/h", or a number per second up to {MAX_RATE:g}'
        raise InvalidValue("limits.rate", value, allowed)
    return float(value)


def encode_limits(limits: Iterable[Limit]) -> str | None:
    """As an execution carries them; None when there are none."""
    listed = list(limits)
    return msgspec.json.encode(listed).decode() if listed else None


@lru_cache(maxsize=4096)
def decode_limits(text: str) -> tuple[Limit, ...]:
    """A row that was enqueued by plain SQL may have keys that could not be declared; they are made printable, as they
    would have been here.

    >>> decode_limits('[{"key":"a\\u200bb","concurrency":1}]')[0].key
    'a?b'
    """
    try:
        return msgspec.json.decode(text, type=tuple[Limit, ...])
    except msgspec.ValidationError:
        fields = msgspec.json.decode(text, type=list[dict[str, Any]])
        return tuple(Limit(**{**each, "key": printable_key(each["key"])}) for each in fields)


def printable_key(key: str) -> str:
    """A question mark stands for each character that cannot be printed; an empty key becomes "-"."""
    return "".join(each if each.isprintable() else "?" for each in key[:_LONGEST]) or "-"


def refilled(level: float, since: int, now: int, rate: float, burst: int) -> float:
    """The level now of a bucket that held `level` tokens at `since` (microseconds). A clock that was set back adds and
    removes nothing; the bucket fills up again from the next check.

    >>> refilled(0.0, since=0, now=500_000, rate=50.0, burst=10)
    10.0
    >>> refilled(1.0, since=0, now=20_000, rate=50.0, burst=10)
    2.0
    """
    return min(float(burst), level + max(0, now - since) * rate / 1_000_000)


def next_token(level: float, now: int, rate: float) -> int:
    """When a bucket that holds this much now will hold one token, in microseconds."""
    return now + math.ceil(max(0.0, 1.0 - level) * 1_000_000 / rate)
