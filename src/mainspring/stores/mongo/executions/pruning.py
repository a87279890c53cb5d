"""Deleting finished executions, in small batches.

A row whose ending the statistics do not include yet is only hidden; `fold` deletes it once they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....model.execution import State
from ....model.store.messages import Audit, PruneRule
from ...common.ids import id_range
from ..connection.bulk import value_by_id
from ..connection.database import Database, StorePart
from ..connection.errors import repeated
from ..documents import audit_document
from .conditions import RARE, VISIBLE
from .lists import clear_out

_INDEXED = ["todo", "parent_id", "tenant", "trace_id", "rare", "labels"]
_HIDE = {"$set": {"hidden": True}, "$unset": dict.fromkeys(_INDEXED, 1)}


class Pruning(StorePart):
    async def prune(self, rule: PruneRule, limit: int) -> int:
        """In two steps: finished rows change nothing but their marks, so the rows found may be deleted later."""
        ids = await _prunable(self.db, rule, limit) if rule.states and limit > 0 else []
        return await _delete(self.db, ids, {"todo": {"$exists": False}}) if ids else 0

    async def delete_executions(self, ids: Sequence[str], audits: Sequence[Audit]) -> list[bool]:
        """One write hides each row and adds the audit record to it. `audit.move` deletes a hidden row once it has moved
        the records; `fold` deletes it if the statistics do not include it yet."""
        records = {id: audit_document(audit) for id, audit in reversed([*zip(ids, audits, strict=True)])}
        wanted = {"_id": {"$in": list(records)}, "live": False, "todo": {"$exists": False}, **VISIBLE}
        added = {"$concatArrays": [{"$ifNull": ["$audits", []]}, [value_by_id(records)]]}
        hide: list[dict[str, Any]] = [{"$set": {"hidden": True, "audits": added}}, {"$unset": _INDEXED}]
        db, known = self.db, [record["_id"] for record in records.values()]
        await repeated(lambda: db.executions.update_many(wanted, hide))
        stored = {doc["_id"] for doc in await db.executions.find({"_id": wanted["_id"], "audits._id": {"$in": known}})}
        moved = {doc["_id"] for doc in await db.audits.find({"_id": {"$in": known}}, {"_id": 1})}
        deleted = stored | {id for id, record in records.items() if record["_id"] in moved}
        await clear_out(db, list(deleted))
        hidden = {"_id": {"$in": list(deleted)}, "hidden": True, "live": False, "delta": {"$ne": True}}
        await repeated(lambda: db.executions.delete_many({**hidden, "audits": {"$exists": False}}))
        first = {id: place for place, id in reversed([*enumerate(ids)])}
        return [id in deleted and first[id] == place for place, id in enumerate(ids)]

    async def todo_done(self, ids: Sequence[str]) -> None:
        db = self.db
        marked = {"_id": {"$in": list(ids)}, "live": False, "todo": True}
        kept = {**marked, "unkept": {"$exists": False}}
        await repeated(lambda: db.executions.update_many(kept, {"$unset": {"todo": 1}}))
        unkept = await db.executions.find({**marked, "unkept": True}, {"_id": 1})
        if gone := [doc["_id"] for doc in unkept]:
            await _delete(db, gone, {"todo": True, "unkept": True})


async def _delete(db: Database, ids: Sequence[str], condition: dict[str, Any]) -> int:
    """Delete or hide those of these finished rows that meet the condition; returns how many."""
    chosen = {"_id": {"$in": list(ids)}, "live": False, **condition}
    uncounted = {**chosen, "delta": True, **VISIBLE}
    hidden = (await repeated(lambda: db.executions.update_many(uncounted, _HIDE))).modified_count
    await clear_out(db, ids)
    deleted = await repeated(lambda: db.executions.delete_many({**chosen, "delta": {"$ne": True}}))
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
    """The oldest of the `newest` rows that are kept; None when there are fewer than that."""
    counted = {"job_id": rule.job_id, "live": False, "state": {"$ne": "skipped"}, **VISIBLE}
    rows = await db.executions.find(counted, {"_id": 1}, sort={"_id": -1}, skip=rule.newest - 1, limit=1)
    return rows[0]["_id"] if rows else None


async def _prunable_in(
    db: Database, rule: PruneRule, states: frozenset[State], before: str | None, limit: int
) -> list[str]:
    """A row that ended before an instant has an id from before it, except strays."""
    names = sorted(state.value for state in states)
    wanted: dict[str, Any] = {"job_id": rule.job_id, "state": {"$in": names}, "todo": {"$exists": False}, **VISIBLE}
    wanted |= {"rare": True} if states <= RARE else {"live": False}
    conditions: list[dict[str, Any]] = [wanted]
    if before is not None:
        conditions.append({"_id": {"$lt": before}})
    if rule.older_than is None:
        return await _ids(db, conditions, limit)
    conditions.append({"finished": {"$lt": rule.older_than}})
    _, last = id_range(None, rule.older_than)
    found = await _ids(db, [*conditions, {"_id": {"$lt": last}}], limit)
    strays = await _ids(db, [*conditions, {"stray": True}], limit)
    return sorted({*found, *strays})[:limit]


async def _ids(db: Database, conditions: Sequence[dict[str, Any]], limit: int) -> list[str]:
    found = await db.executions.find({"$and": conditions}, {"_id": 1}, sort={"_id": 1}, limit=limit)
    return [doc["_id"] for doc in found]
