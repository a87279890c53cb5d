"""How much room limits have: which numbers of a key are taken by running rows, and how many tokens there are.

Each row that runs under a key has a number there, and no two rows the same one: a unique index sees to it. Under a
limit of n the numbers to take are 0 to n-1, so that no more than n can run however many claim at once. Rows that were
not claimed under a number (work recorded inline, rows of a limit by rate) count too: their number is their id, and as
many fewer are left to take.
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
    look_at_slots,
    look_at_tokens,
    tokens_in,
    wait_of,
)
from ..connection.database import Database
from .buckets import bucket_of
from .wait_lines import waited

_CHOICES = 64
"""Whoever claims at the same time takes another one of so many free numbers, as a rule."""


class Spare(NamedTuple):
    """What a key had at one moment: slots in use, or its bucket."""

    wait: Wait
    used: int
    bucket: Bucket | None
    now: Micros

    def left(self, limit: Limit) -> int:
        """For a limit of this key and kind, whatever its numbers."""
        if limit.concurrency is not None:
            return limit.concurrency - self.used
        return tokens_in(level_of(self.bucket, limit, self.now))


class Room:
    """What is known of some limits; taking from it tells what is left for the next row."""

    def __init__(self, now: Micros) -> None:
        self.now = now
        self.numbers: dict[str, set[Any]] = {}
        self.buckets: dict[str, Bucket | None] = {}

    def full(self, limits: str) -> Limit | None:
        """The first limit that has no room."""
        return next((limit for limit in decode_limits(limits) if self.left(limit) < 1), None)

    def left(self, limit: Limit) -> int:
        if limit.concurrency is not None:
            return limit.concurrency - len(self.numbers[limit.key])
        return tokens_in(self.level(limit))

    def level(self, limit: Limit) -> float:
        return level_of(self.buckets[limit.key], limit, self.now)

    def spare(self, limit: Limit) -> Spare:
        """The room there is now, for a row that cannot use it."""
        if limit.concurrency is not None:
            return Spare(wait_of(limit), len(self.numbers[limit.key]), None, self.now)
        return Spare(wait_of(limit), 0, self.buckets[limit.key], self.now)

    def next_look(self, limit: Limit, woken: int = 0) -> Micros:
        """When to look at the rows parked under this limit, once so many of them are woken."""
        if limit.concurrency is not None:
            return look_at_slots(self.now)
        return look_at_tokens(self.level(limit) - woken, limit, self.now)

    def take(self, id: str, limits: str) -> list[dict[str, Any]]:
        """The slots of this row. There is room for it."""
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


async def room_for(db: Database, limits: Iterable[Limit], now: Micros, *, hopeful: bool = False) -> Room:
    """`hopeful`: buckets are not read and taken to be full."""
    room = Room(now)
    by_wait = {wait_of(limit): limit for limit in limits}
    slots = [wait.key for wait in by_wait if wait.kind == "slot"]
    if slots:
        room.numbers = await _numbers(db, slots)
    tokens = {waited(wait): limit for wait, limit in by_wait.items() if wait.kind == "token"}
    found: dict[str, dict[str, Any]] = {}
    if tokens and not hopeful:
        some = db.limits.find({"_id": {"$in": list(tokens)}}, {"level": 1, "since": 1})
        found = {doc["_id"]: doc async for doc in some}
    for name, limit in tokens.items():
        room.buckets[limit.key] = bucket_of(found.get(name), limit)
    return room


def room_in(doc: dict[str, Any], limit: Limit, now: Micros) -> Room:
    """Of a limit whose bucket is at hand, and of others of the same key."""
    room = Room(now)
    room.buckets[limit.key] = bucket_of(doc, limit)
    return room


async def _numbers(db: Database, keys: list[str]) -> dict[str, set[Any]]:
    numbers: dict[str, set[Any]] = {key: set() for key in keys}
    async for doc in db.executions.find({"slots.key": {"$in": keys}}, {"_id": 0, "slots": 1}):
        for slot in doc["slots"]:
            if slot["key"] in numbers:
                numbers[slot["key"]].add(slot["number"])
    return numbers
