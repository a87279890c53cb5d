"""Shares and limits: which tag a ready row gets, whether a limit has room, when to check a wait line again.

Pure functions, the same for every store. `core.ports.Store.exchange` describes the mechanism; the conformance suites
`shares`, `limits` and `wait_lines` show it in examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from ...model.limits import Limit, decode_limits, next_token, refilled
from ...model.time.instants import Micros, seconds_to_micros

RECHECK_AFTER = 5.0  # seconds after which the wait lines of a key are checked, whether or not anything woke them
_STEP = 1_000_000  # how much one execution of weight 1 adds to the tag of its share
_NEARLY = 1e-6  # rounding error of sums: a token that lacks no more than this counts as whole

WaitKind: TypeAlias = Literal["slot", "token"]


class Wait(NamedTuple):
    """What a parked row waits for: a slot or a token of this key."""

    key: str
    kind: WaitKind


class Bucket(NamedTuple):
    """A token bucket: its level at the instant `since`, and the rate and burst it was computed with."""

    level: float
    since: Micros
    rate: float
    burst: int


def next_tag(smallest: int | None, greatest_of_share: int | None, weight: int) -> int:
    """The tag of a row that becomes ready: `smallest` is among the ready rows of its lane and priority,
    `greatest_of_share` among those that have its share too. A parked row gets its place in a wait line in the same way.

    >>> next_tag(None, None, 1), next_tag(7, None, 1), next_tag(7, 9, 1), next_tag(7, 9, 4)
    (0, 7, 1000009, 250009)
    """
    front = smallest or 0
    return front if greatest_of_share is None else max(front, greatest_of_share + _STEP // max(1, weight))


@lru_cache(maxsize=4096)
def keys_of(limits: str) -> tuple[str, ...]:
    """The keys under which a running row takes a slot, each once."""
    return tuple(dict.fromkeys(limit.key for limit in decode_limits(limits)))


def wait_of(limit: Limit) -> Wait:
    return Wait(limit.key, "token" if limit.concurrency is None else "slot")


def numbers_in(limit: Limit) -> str:
    """The numbers of a limit as text: each pair of numbers has a wait line of its own.

    >>> numbers_in(Limit("k", concurrency=3)), numbers_in(Limit("k", rate=0.5, burst=2))
    ('3', '0.5/2')
    """
    return str(limit.concurrency) if limit.concurrency is not None else f"{limit.per_second}/{limit.burst}"


@lru_cache(maxsize=4096)
def limit_with(wait: Wait, numbers: str) -> Limit:
    """The limit that the rows of a wait line with these numbers wait for."""
    if wait.kind == "slot":
        return Limit(wait.key, concurrency=int(numbers))
    rate, _, burst = numbers.partition("/")
    return Limit(wait.key, rate=float(rate), burst=int(burst))


def level_of(bucket: Bucket | None, limit: Limit, now: Micros) -> float:
    """The level of this limit's bucket; a bucket that was never used is full."""
    rate, burst = numbers_of(limit)
    return float(burst) if bucket is None else refilled(bucket.level, bucket.since, now, rate, burst)


def numbers_of(limit: Limit) -> tuple[float, int]:
    assert limit.per_second is not None
    assert limit.burst is not None
    return limit.per_second, limit.burst


def tokens_in(level: float) -> int:
    """Whole tokens.

    >>> tokens_in(0.9), tokens_in(0.9999999), tokens_in(2.5)
    (0, 1, 2)
    """
    return max(0, math.floor(level + _NEARLY))


def after_taking(bucket: Bucket | None, limit: Limit, now: Micros) -> Bucket:
    return Bucket(level_of(bucket, limit, now) - 1.0, now, *numbers_of(limit))


def is_full(bucket: Bucket, now: Micros) -> bool:
    """Whether the bucket has filled up again, so that it need not be stored."""
    return refilled(bucket.level, bucket.since, now, bucket.rate, bucket.burst) >= bucket.burst


def anchored(bucket: Bucket, now: Micros) -> Bucket:
    """The bucket as it fills up from now on, if `since` lies in the future because the clock was set back."""
    return bucket._replace(since=min(bucket.since, now))


def is_look_due(look: Micros, now: Micros) -> bool:
    """Checks are never planned further ahead than `RECHECK_AFTER`, unless the clock was set back since."""
    return look <= now or look > next_slot_check(now)


def next_slot_check(now: Micros) -> Micros:
    return now + seconds_to_micros(RECHECK_AFTER)


def next_token_check(level: float, limit: Limit, now: Micros) -> Micros:
    """When the next token arrives, but no later than `RECHECK_AFTER` from now."""
    return min(next_slot_check(now), next_token(level, now, numbers_of(limit)[0]))


def limits_before(limits: str, full: Limit) -> Sequence[Limit]:
    """The limits before this one, which is the first without room."""
    decoded = decode_limits(limits)
    return decoded[: decoded.index(full)]
