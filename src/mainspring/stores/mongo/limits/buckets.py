"""The documents of limits: token buckets, and when to recheck parked rows.

    _id         what rows wait for: `~token:key` or `slot:key`
    level       how many tokens there were at the instant `since`; absent means full, as a bucket begins
    full        when the bucket will be full again if nobody takes from it: from then on the document is not needed
    recheck_at  when to recheck the rows parked under this name; absent while there are none
    touched     when a process was last about to park a row
    wait_lines  the wait lines in which rows are parked under this name, or were not long ago

Tokens are taken before the rows that need them are claimed, and given back when a claim fails. A process that dies in
between has lost them: there are never more than the rate allows. They need no confirmation of their own: a majority
that has the claim has what the primary wrote before it.
"""

from __future__ import annotations

from typing import Any

from pymongo import ReturnDocument

from ....model.limits import Limit
from ....model.time.instants import Micros
from ...common.limits import Bucket, Wait, numbers_of
from ..connection.database import Database
from .wait_lines import waited

_ROUNDING = 1e-6  # as in `stores.common.limits.tokens_in`


def bucket_of(doc: dict[str, Any] | None, limit: Limit) -> Bucket | None:
    if doc is None or "level" not in doc:
        return None
    return Bucket(float(doc["level"]), int(doc["since"]), *numbers_of(limit))


async def take_tokens(db: Database, limit: Limit, wanted: int) -> int:
    """Take up to so many tokens, in one step by the server's clock; returns how many there were."""
    after = await db.buckets.find_one_and_update(
        {"_id": waited(Wait(limit.key, "token"))},
        _take(db, limit, wanted),
        projection={"took": 1},
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    assert after is not None  # the upsert creates it
    return int(after["took"])


def _take(db: Database, limit: Limit, wanted: int) -> list[dict[str, Any]]:
    """`model.limits.refilled`, computed in the server."""
    rate, burst = numbers_of(limit)
    now = db.time.now()
    since = {"$max": [0, {"$subtract": [now, "$since"]}]}
    refilled = {"$add": ["$level", {"$divide": [{"$multiply": [since, rate]}, 1_000_000]}]}
    is_new = {"$eq": [{"$type": "$level"}, "missing"]}
    held = {"$cond": [is_new, float(burst), {"$min": [float(burst), refilled]}]}
    whole = {"$max": [0, {"$min": [wanted, {"$floor": {"$add": ["$level", _ROUNDING]}}]}]}
    full_in = {"$divide": [{"$multiply": [{"$subtract": [burst, "$level"]}, 1_000_000]}, rate]}
    return [
        {"$set": {"level": held, "since": now}},
        {"$set": {"took": whole}},
        {"$set": {"level": {"$subtract": ["$level", "$took"]}}},
        {"$set": {"full": {"$add": [now, {"$toLong": {"$ceil": full_in}}]}}},
    ]


async def give_back(db: Database, key: str, count: int) -> None:
    """Return tokens that no claim used. Rows that wait for them are rechecked at once."""
    recheck_at = {"$cond": [{"$eq": [{"$type": "$recheck_at"}, "missing"]}, "$$REMOVE", db.time.now()]}
    change = [{"$set": {"level": {"$add": ["$level", count]}, "recheck_at": recheck_at}}]
    await db.buckets.update_one({"_id": waited(Wait(key, "token")), "level": {"$exists": True}}, change)


async def delete_full_buckets(db: Database, now: Micros) -> None:
    await db.limits.delete_many({"full": {"$lte": now}, "recheck_at": {"$exists": False}})
