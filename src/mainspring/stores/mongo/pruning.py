"""Retention and purging, in small batches.

A row whose ending the statistics do not hold yet is only hidden: `fold` deletes it once they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.execution import State
from ...model.store.messages import PruneRule
from .connection.database import Database, repeated
from .executions.documents import SLACK, first_id
from .executions.lists import RARE, SEEN
from .jobs.statistics import delete_logs, finish_folding

PURGED_AT_ONCE = 500
_UNCOUNTED = {"delta": True}
_COUNTED = {"delta": {"$ne": True}}
_HIDE = {"$set": {"hidden": True}, "$unset": dict.fromkeys(("todo", "parent_id", "tenant", "trace_id", "rare"), 1)}


async def prune(db: Database, rule: PruneRule, limit: int) -> int:
    """Found and deleted in two steps: finished rows never change but for their marks."""
    ids = await _prunable(db, rule, limit) if rule.states and limit > 0 else []
    return await remove(db, ids, {"todo": {"$exists": False}}) if ids else 0


async def remove(db: Database, ids: Sequence[str], which: dict[str, Any]) -> int:
    """Of these finished rows, those that fit; how many went."""
    chosen = {"_id": {"$in": list(ids)}, "live": False, **which}
    hidden = (await repeated(lambda: db.executions.update_many({**chosen, **_UNCOUNTED, **SEEN}, _HIDE))).modified_count
    await delete_logs(db, ids)
    deleted = await repeated(lambda: db.executions.delete_many({**chosen, **_COUNTED}))
    return int(hidden + deleted.deleted_count)


async def _prunable(db: Database, rule: PruneRule, limit: int) -> list[str]:
    first_kept = await _first_kept(db, rule) if rule.newest > 0 else None
    found: list[str] = []
    for states in (rule.states & {State.COMPLETED}, rule.states & RARE - {State.SKIPPED}):
        if states and (rule.newest <= 0 or first_kept is not None):
            found += await _prunable_in(db, rule, states, first_kept, limit)
    if State.SKIPPED in rule.states:
        found += await _prunable_in(db, rule, frozenset({State.SKIPPED}), None, limit)
    return sorted(found)[:limit]


async def _first_kept(db: Database, rule: PruneRule) -> str | None:
    """The oldest of the newest ones; None when there are not even that many."""
    counted = {"job_id": rule.job_id, "live": False, "state": {"$ne": "skipped"}, **SEEN}
    found = db.executions.find(counted, {"_id": 1}).sort("_id", -1).skip(rule.newest - 1).limit(1)
    rows = await found.to_list()
    return rows[0]["_id"] if rows else None


async def _prunable_in(
    db: Database, rule: PruneRule, states: frozenset[State], before: str | None, limit: int
) -> list[str]:
    """What ended before an instant has an id from before it, unless its id tells another time."""
    names = sorted(state.value for state in states)
    wanted: dict[str, Any] = {"job_id": rule.job_id, "state": {"$in": names}, "todo": {"$exists": False}, **SEEN}
    wanted |= {"rare": True} if states <= RARE else {"live": False}
    parts: list[dict[str, Any]] = [wanted]
    if before is not None:
        parts.append({"_id": {"$lt": before}})
    if rule.older_than is None:
        return await _ids(db, parts, limit)
    parts.append({"finished": {"$lt": rule.older_than}})
    told = {"_id": {"$lt": first_id(rule.older_than // 1000 + SLACK + 1)}}
    found = await _ids(db, [*parts, told], limit)
    strays = await _ids(db, [*parts, {"stray": True}], limit)
    return sorted({*found, *strays})[:limit]


async def _ids(db: Database, parts: Sequence[dict[str, Any]], limit: int) -> list[str]:
    found = db.executions.find({"$and": parts}, {"_id": 1}).sort("_id", 1).limit(limit)
    return [doc["_id"] for doc in await found.to_list()]


# --- follow-ups done ------------------------------------------------------------------------------------------------


async def todo_done(db: Database, ids: Sequence[str]) -> None:
    """Clear the mark; those not to be kept go now."""
    marked = {"_id": {"$in": list(ids)}, "live": False, "todo": True}
    keep = {**marked, "unkept": {"$exists": False}}
    await repeated(lambda: db.executions.update_many(keep, {"$unset": {"todo": 1}}))
    unkept = db.executions.find({**marked, "unkept": True}, {"_id": 1})
    if gone := [doc["_id"] async for doc in unkept]:
        await remove(db, gone, {"todo": True, "unkept": True})


# --- deleted jobs ---------------------------------------------------------------------------------------------------


async def purge_all(db: Database) -> None:
    """Finished executions and statistics of jobs deleted with all they had; what a crash leaves is done by `fold`."""
    for purge in await db.purges.find().to_list():
        await _purge(db, purge["_id"])
        await db.purges.delete_one({"_id": purge["_id"]})


async def _purge(db: Database, job_id: str) -> None:
    await finish_folding(db, job_id)
    ended = {"job_id": job_id, "live": False}
    while found := await db.executions.find(ended, {"_id": 1}).limit(PURGED_AT_ONCE).to_list():
        ids = [doc["_id"] for doc in found]
        await delete_logs(db, ids)
        await db.executions.delete_many({"_id": {"$in": ids}, "live": False})
    live = {"job_id": job_id, "live": True, **_UNCOUNTED}
    await db.executions.update_many(live, {"$unset": {"delta": 1, "rescued": 1}})
    await db.incarnations.update_one({"_id": job_id}, {"$unset": {"stats": 1, "folding": 1}, "$inc": {"folds": 1}})
