"""The capacity that limits have left: which slots of a key are taken by running rows, and how many tokens there are.

Each row that runs under a key has a number there, and a unique index lets no two rows have the same one. Under a limit
of n the numbers to take are 0 to n-1, so that no more than n rows can run however many processes claim at once. Rows
that were not claimed under a number (work recorded inline, rows of a rate limit) count too: their number is their id,
and as many slots fewer are left.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from ....model.limits import Limit, decode_limits
from ....model.time.instants import Micros
from ...common.limits import (
    Bucket,
    Wait,
    after_taking,
    keys_of,
    level_of,
    next_slot_check,
    next_token_check,
    tokens_in,
    wait_of,
)
from ..connection.database import Database
from .buckets import bucket_of
from .wait_lines import waited

_CHOICES = 64
"""A slot is chosen from so many free ones at random, so that concurrent claims seldom choose the same."""


class KeyCapacity(NamedTuple):
    """What one key had at one moment: slots in use, or its bucket."""

    wait: Wait
    used: int
    bucket: Bucket | None
    now: Micros

    def left(self, limit: Limit) -> int:
        """For a limit of this key and kind, whatever its numbers."""
        if limit.concurrency is not None:
            return limit.concurrency - self.used
        return tokens_in(level_of(self.bucket, limit, self.now))


class Capacity:
    """The capacity of some limits. Taking slots and tokens for a row leaves less for the next one."""

    def __init__(self, now: Micros) -> None:
        self.now = now
        self.numbers: dict[str, set[Any]] = {}
        self.buckets: dict[str, Bucket | None] = {}

    def of(self, limit: Limit) -> KeyCapacity:
        """What there is at this moment."""
        if limit.concurrency is not None:
            return KeyCapacity(wait_of(limit), len(self.numbers[limit.key]), None, self.now)
        return KeyCapacity(wait_of(limit), 0, self.buckets[limit.key], self.now)

    def left(self, limit: Limit) -> int:
        return self.of(limit).left(limit)

    def first_full(self, limits: str) -> Limit | None:
        return next((limit for limit in decode_limits(limits) if self.left(limit) < 1), None)

    def next_recheck(self, limit: Limit, woken: int = 0) -> Micros:
        """When to recheck the rows parked under this limit, once so many of them are woken."""
        if limit.concurrency is not None:
            return next_slot_check(self.now)
        level = level_of(self.buckets[limit.key], limit, self.now)
        return next_token_check(level - woken, limit, self.now)

    def take(self, id: str, limits: str) -> list[dict[str, Any]]:
        """Take one of everything for this row, for which there is enough; returns its slots."""
        for limit in decode_limits(limits):
            if limit.concurrency is None:
                self.buckets[limit.key] = after_taking(self.buckets[limit.key], limit, self.now)
        return [{"key": key, "number": self._number(id, key, limits)} for key in keys_of(limits)]

    def _number(self, id: str, key: str, limits: str) -> Any:
        most = [limit.concurrency for limit in decode_limits(limits) if limit.key == key and limit.concurrency]
        if not most:
            return id
        taken = self.numbers[key]
        free = (number for number in range(min(most)) if number not in taken)
        number = random.choice(list(islice(free, min(min(most) - len(taken), _CHOICES))))
        taken.add(number)
        return number


async def read_capacity(db: Database, limits: Iterable[Limit], now: Micros, *, assume_full: bool = False) -> Capacity:
    """With `assume_full` buckets are not read, but assumed to be full of tokens."""
    capacity = Capacity(now)
    by_wait = {wait_of(limit): limit for limit in limits}
    slots = [wait.key for wait in by_wait if wait.kind == "slot"]
    if slots:
        capacity.numbers = await _numbers(db, slots)
    tokens = {waited(wait): limit for wait, limit in by_wait.items() if wait.kind == "token"}
    found: dict[str, dict[str, Any]] = {}
    if tokens and not assume_full:
        some = await db.limits.find({"_id": {"$in": list(tokens)}}, {"level": 1, "since": 1})
        found = {doc["_id"]: doc for doc in some}
    for name, limit in tokens.items():
        capacity.buckets[limit.key] = bucket_of(found.get(name), limit)
    return capacity


async def _numbers(db: Database, keys: list[str]) -> dict[str, set[Any]]:
    numbers: dict[str, set[Any]] = {key: set() for key in keys}
    for doc in await db.executions.find({"slots.key": {"$in": keys}}, {"_id": 0, "slots": 1}):
        add_numbers(numbers, doc)
    return numbers


def add_numbers(numbers: dict[str, set[Any]], doc: dict[str, Any]) -> None:
    for slot in doc["slots"]:
        if slot["key"] in numbers:
            numbers[slot["key"]].add(slot["number"])
