"""What makes rows ready: their time has come, or what they waited for has been freed.

A deferred row waits for a running key, a parked one for a slot or a token of a limit; both say so in `waits_for`.
Whoever frees something wakes them; whoever parks a row looks once more afterwards, should it have been freed just
before (`parking`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...model.changes import Change
from ...model.execution import State
from ...model.instants import Micros
from ..flow import Wait, keys_of
from .database import Database, repeated
from .settling import AT_ONCE, READY
from .sharing import ENTERING, entering_document, tags

TOKENS, _SLOTS = "~token:", "slot:"
PROMOTED_AT_ONCE = 1_000
IN_TURN = [("priority", -1), ("tag", 1), ("_id", 1)]


async def promote(db: Database, now: Micros) -> None:
    """Future rows whose time has come become ready: a bounded number at once. Those with a share get their turns."""
    due = {"future": True, "due": {"$lte": now}}
    found = await db.executions.find(due, ENTERING).sort("due").limit(PROMOTED_AT_ONCE).to_list()
    shared = [entering_document(doc) for doc in found if "share" in doc]
    plain = [doc["_id"] for doc in found if "share" not in doc]
    ripe: list[dict[str, Any]] = [{"$set": {"ready": READY}}, {"$unset": ["future", "waits_for"]}]
    if plain:
        await repeated(lambda: db.claims.update_many({"_id": {"$in": plain}, **due}, ripe))
    if shared:
        given = await tags(db, shared)
        ids = list(given)
        own = {"$arrayElemAt": [list(given.values()), {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
        turned = [{"$set": {"tag": own}}, *ripe]
        await repeated(lambda: db.claims.update_many({"_id": {"$in": ids}, **due}, turned))


# --- what has been freed --------------------------------------------------------------------------------------------


async def wake_freed(db: Database, left: Sequence[Change]) -> int:
    """Those that wait for the keys of what has ended, or for the slots of what ran. How many there were."""
    ended = {change.id for change in left if change.to.final}
    ran = {change.id for change in left if change.expect is State.RUNNING}
    fields = {"unique_key": 1, "overlap_key": 1, "limits": 1}
    slots: Counter[str] = Counter()
    keys: list[str] = []
    async for doc in db.executions.find({"_id": {"$in": [change.id for change in left]}}, fields):
        if doc["_id"] in ended:
            keys += waited_keys(doc.get("unique_key"), doc.get("overlap_key"))
        if doc["_id"] in ran and "limits" in doc:
            slots.update(keys_of(doc["limits"]))
    woken = await wake_waiters(db, keys)
    for key, count in sorted(slots.items()):
        woken += await wake_parked(db, Wait(key, "slot"), count)
    return woken


def waited_keys(unique: str | None, overlap: str | None) -> list[str]:
    return [f"{kind}:{key}" for kind, key in (("u", unique), ("o", overlap)) if key is not None]


async def wake_waiters(db: Database, keys: Sequence[str]) -> int:
    """Rows that a claim deferred because of one of these keys are due at once, unless they are due already."""
    if not keys:
        return 0
    now = db.time.now()
    waiting = {"waits_for": {"$in": keys}, "future": True, "$expr": {"$gt": ["$due", now]}}
    due: list[dict[str, Any]] = [{"$unset": ["waits_for"]}, {"$set": {"due": now, **AT_ONCE}}]
    return int((await repeated(lambda: db.claims.update_many(waiting, due))).modified_count)


def waited(wait: Wait) -> str:
    """As parked rows name what they wait for. Tokens come last in the order of names: no ending frees any."""
    return f"{TOKENS if wait.kind == 'token' else _SLOTS}{wait.key}"


def wait_named(name: str) -> Wait:
    if name.startswith(TOKENS):
        return Wait(name.removeprefix(TOKENS), "token")
    return Wait(name.removeprefix(_SLOTS), "slot")


async def wake_parked(db: Database, wait: Wait, count: int, first: Sequence[str] = ()) -> int:
    """So many of them become ready, each under the tag it had. Those that somebody else has woken meanwhile are not
    counted: what that one freed is for others. `first` are those whose turn it is, as far as they are known."""
    name = {"waits_for": waited(wait)}
    ready: list[dict[str, Any]] = [{"$set": {"ready": READY}}, {"$unset": ["waits_for", "parked"]}]
    woken, ids = 0, list(first[:count])
    while woken < count:
        if not ids:
            found = db.executions.find(name, {"_id": 1}).sort(IN_TURN).limit(count - woken)
            ids = [doc["_id"] async for doc in found]
        if not ids:
            break
        woken += (await db.claims.update_many({"_id": {"$in": ids}, **name}, ready)).modified_count
        ids = []
    return woken
