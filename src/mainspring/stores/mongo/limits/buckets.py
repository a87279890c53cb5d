"""Token buckets, and when to look at parked rows again: small documents in the collection `limits`.

    _id      what is waited for, as parked rows name it: `~token:key`, `slot:key`
    level    how many tokens there were at the instant `since`; absent means full, as a bucket begins
    full     when the bucket will be full again if nobody takes of it: from then on it is as good as none
    again    when to look at the rows parked under this name; absent while there are none
    touched  when somebody was last about to park a row
    lines    the lines in which rows are parked under this name, or were not long ago

Tokens are taken before the rows that need them are claimed, and given back when a claim fails. Whoever dies in between
has lost them: never are there more than the rate allows. They need no confirmation of their own: a majority that has
the claim has what the primary wrote before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from ....model.limits import Limit
from ....model.time.instants import Micros
from ...common.limits import Bucket, Wait, numbers_of
from ..connection.database import QUICK, Collection, Database
from .wait_lines import waited

_NEARLY = 1e-6  # as in flow.tokens_in
_TRIES = 5


def bucket_of(doc: dict[str, Any] | None, limit: Limit) -> Bucket | None:
    if doc is None or "level" not in doc:
        return None
    return Bucket(float(doc["level"]), int(doc["since"]), *numbers_of(limit))


def _quick(db: Database) -> Collection:
    return db.limits.with_options(write_concern=QUICK)


async def take_tokens(db: Database, limit: Limit, wanted: int) -> int:
    """How many there were, up to so many, in one step by the server's clock."""
    wait = {"_id": waited(Wait(limit.key, "token"))}
    for tried in range(_TRIES):
        try:
            after = await _quick(db).find_one_and_update(
                wait,
                _taking(db, limit, wanted),
                projection={"took": 1},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:  # somebody else was making the same bucket
            if tried == _TRIES - 1:
                raise
        else:
            assert after is not None  # it was made, if need be
            return int(after["took"])
    raise AssertionError("unreachable")


def _taking(db: Database, limit: Limit, wanted: int) -> list[dict[str, Any]]:
    """The sums of `model.limits.refilled`, in the server."""
    rate, burst = numbers_of(limit)
    now = db.time.now()
    since = {"$max": [0, {"$subtract": [now, "$since"]}]}
    refilled = {"$add": ["$level", {"$divide": [{"$multiply": [since, rate]}, 1_000_000]}]}
    fresh = {"$eq": [{"$type": "$level"}, "missing"]}
    held = {"$cond": [fresh, float(burst), {"$min": [float(burst), refilled]}]}
    whole = {"$max": [0, {"$min": [wanted, {"$floor": {"$add": ["$level", _NEARLY]}}]}]}
    empty_for = {"$divide": [{"$multiply": [{"$subtract": [burst, "$level"]}, 1_000_000]}, rate]}
    return [
        {"$set": {"level": held, "since": now}},
        {"$set": {"took": whole}},
        {"$set": {"level": {"$subtract": ["$level", "$took"]}}},
        {"$set": {"full": {"$add": [now, {"$toLong": {"$ceil": empty_for}}]}}},
    ]


async def give_back(db: Database, key: str, count: int) -> None:
    """Tokens that no claim used. Whoever waits for them is looked at."""
    again = {"$cond": [{"$eq": [{"$type": "$again"}, "missing"]}, "$$REMOVE", db.time.now()]}
    change = [{"$set": {"level": {"$add": ["$level", count]}, "again": again}}]
    bucket = {"_id": waited(Wait(key, "token")), "level": {"$exists": True}}
    await _quick(db).update_one(bucket, change)


async def look_by(db: Database, wait: Wait, look: Micros, lines: Iterable[str]) -> None:
    """Before rows are parked in these lines: from now on somebody will look at the rows parked there."""
    await db.learn_flow()
    again = {"$min": ["$again", look]}  # what is absent is not the least
    known = {"$setUnion": [{"$ifNull": ["$lines", []]}, {"$literal": sorted(lines)}]}
    change = [{"$set": {"again": again, "touched": db.time.now(), "lines": known}}]
    for tried in range(_TRIES):
        try:
            await _quick(db).update_one({"_id": waited(wait)}, change, upsert=True)
        except DuplicateKeyError:
            if tried == _TRIES - 1:
                raise
        else:
            return


async def forget_full_buckets(db: Database, now: Micros) -> None:
    await db.limits.delete_many({"full": {"$lte": now}, "again": {"$exists": False}})
