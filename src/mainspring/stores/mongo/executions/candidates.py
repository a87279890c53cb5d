"""One question before a claim: which rows are ready, lane by lane, when is the next one due, and what time is it.

Lanes are found by skipping along the index, the best rows of each from the index alone: rows of other handlers, other
queues or the future are never looked at.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from pymongo.asynchronous.command_cursor import AsyncCommandCursor

from ....model.execution import lane
from ....model.store.messages import ClaimRequest
from ....model.time.instants import Micros
from ...common.limits import look_at_slots
from ...common.rows import Candidate
from ..connection.database import Database
from ..limits.wait_lines import TOKENS
from .documents import ALONE, lane_name

Cursor: TypeAlias = AsyncCommandCursor[dict[str, Any]]

_NAMED_LANES = 200
"""Up to so many lanes are asked for by name; beyond, all lanes that exist are looked at."""


class Outlook(msgspec.Struct):
    """`lanes` are those the request may claim from, `staged` the ids among them that trade keys, `limited` those that
    have limits. `next_look` is when parked rows have to be looked at. `cancelled`: there are cancelled jobs."""

    now: Micros = 0
    next_due: Micros | None = None
    next_look: Micros | None = None
    flow: bool = False
    waiters: bool = False
    woken: bool = False
    cancelled: bool = False
    lanes: dict[str, list[Candidate[str]]] = {}
    alone: dict[str, list[Candidate[str]]] = {}
    staged: set[str] = set()
    limited: set[str] = set()

    def is_due(self, instant: Micros | None) -> bool:
        return instant is not None and instant <= self.now

    def is_ahead(self) -> bool:
        """Whether the next look comes from before the clock was set back."""
        return self.next_look is not None and self.next_look > look_at_slots(self.now)

    def wanted(self, request: ClaimRequest) -> dict[str, list[Candidate[str]]]:
        return self.alone if request.alone else self.lanes


async def look(db: Database, request: ClaimRequest | None, most: int, *, waiters: bool) -> Outlook:
    """`most` rows of each lane; `waiters` asks whether any row waits for what an ending frees. Rows with
    shares and parked ones are asked for where there have ever been any: the answer tells."""
    outlook = Outlook()
    around = [_future(db), *([_looks(db)] if db.knows_flow else []), *([_waiters(db)] if waiters else [])]
    for doc in await (await _asked(db, request, most, around)).to_list():
        _read(outlook, doc)
    db.look_at(None if outlook.next_look is None else outlook.next_look - outlook.now)
    if outlook.flow and not db.knows_flow:
        db.knows_flow = True
        return await look(db, request, most, waiters=waiters)
    return outlook


async def _asked(db: Database, request: ClaimRequest | None, most: int, around: list[dict[str, Any]]) -> Cursor:
    """Lanes come first in the pipeline: only there does the server skip from one to the next."""
    now = [{"$match": {"_id": "schema"}}, {"$project": {"_id": 0, "now": db.time.now(), "flow": 1}}]
    if request is None or not request.handlers or request.queues == frozenset():
        return await db.meta.aggregate([*now, *around])
    clock = {"$unionWith": {"coll": db.meta.name, "pipeline": now}}
    return await db.executions.aggregate([*ready_pipeline(db, request, most), clock, *around, _cancelled(db)])


def _read(outlook: Outlook, doc: dict[str, Any]) -> None:
    if "now" in doc:
        outlook.now, outlook.flow = int(doc["now"]), doc.get("flow", False)
    elif "due" in doc:
        outlook.next_due = int(doc["due"])
    elif "again" in doc:
        outlook.next_look = int(doc["again"])
    elif "waits" in doc:
        outlook.waiters = True
    elif "cancelled" in doc:
        outlook.cancelled = True
    else:
        name, rows = doc["_id"], doc["rows"]
        alone = name.endswith(ALONE)
        lanes = outlook.alone if alone else outlook.lanes
        lanes[name.removesuffix(ALONE) if alone else name] = [(-row["priority"], row["_id"]) for row in rows]
        outlook.staged.update(row["_id"] for row in rows if row.get("staged"))
        outlook.limited.update(row["_id"] for row in rows if row.get("limited"))


def _future(db: Database) -> dict[str, Any]:
    pipeline = [{"$match": {"future": True}}, {"$sort": {"due": 1}}, {"$limit": 1}, {"$project": {"_id": 0, "due": 1}}]
    return {"$unionWith": {"coll": db.executions.name, "pipeline": pipeline}}


def _looks(db: Database) -> dict[str, Any]:
    """The first look that is due where rows are parked."""
    parked = {
        "from": db.executions.name,
        "localField": "_id",
        "foreignField": "waits_for",
        "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}],
        "as": "rows",
    }
    pipeline = [
        {"$match": {"again": {"$exists": True}}},
        {"$sort": {"again": 1}},
        {"$lookup": parked},
        {"$match": {"rows": {"$ne": []}}},
        {"$limit": 1},
        {"$project": {"_id": 0, "again": 1}},
    ]
    return {"$unionWith": {"coll": db.limits.name, "pipeline": pipeline}}


def _waiters(db: Database) -> dict[str, Any]:
    found = {"$project": {"_id": 0, "waits": {"$literal": True}}}
    pipeline = [{"$match": {"waits_for": {"$lt": TOKENS}}}, {"$limit": 1}, found]
    return {"$unionWith": {"coll": db.executions.name, "pipeline": pipeline}}


def _cancelled(db: Database) -> dict[str, Any]:
    """Asked after the rows: where no job is cancelled then, none of these rows was added after its job had been."""
    found = {"$project": {"_id": 0, "cancelled": {"$literal": True}}}
    pipeline = [{"$match": {"cancelled": {"$exists": True}}}, {"$limit": 1}, found]
    return {"$unionWith": {"coll": db.jobs.name, "pipeline": pipeline}}


def ready_pipeline(db: Database, request: ClaimRequest, most: int) -> list[dict[str, Any]]:
    best = [
        {"$sort": {"priority": -1, "tag": 1, "_id": 1}},
        {"$limit": most},
        {"$project": {"_id": 1, "priority": 1, "staged": 1, "limited": 1}},
    ]
    lookup = {
        "from": db.executions.name,
        "localField": "_id",
        "foreignField": "ready",
        "pipeline": best,
        "as": "rows",
    }
    return [*lanes_pipeline(request, db.knows_flow), {"$lookup": lookup}, {"$match": {"rows": {"$ne": []}}}]


def lanes_pipeline(request: ClaimRequest, fair: bool) -> list[dict[str, Any]]:
    """The lanes that have ready rows this request may claim; those of shares only if there are any."""
    names = _names(request, (False, True) if fair else (False,))
    if names is not None:
        return [{"$match": {"ready": {"$in": names}}}, {"$group": {"_id": "$ready"}}]
    parts = {"$split": ["$_id", "/"]}
    tests = [{"$in": [{"$arrayElemAt": [parts, 1]}, {"$literal": sorted(request.handlers)}]}]
    if request.queues is not None:
        tests.append({"$in": [{"$arrayElemAt": [parts, 0]}, {"$literal": sorted(request.queues)}]})
    return [
        {"$match": {"ready": {"$gt": ""}}},
        {"$group": {"_id": "$ready"}},
        # Computed first: a plain $match on the name would be moved before the $group, which then reads every row.
        {"$project": {"wanted": {"$and": tests}}},
        {"$match": {"wanted": True}},
    ]


def _names(request: ClaimRequest, kinds: tuple[bool, ...]) -> list[str] | None:
    if request.queues is None or len(request.queues) * len(request.handlers) * 2 * len(kinds) > _NAMED_LANES:
        return None
    names = [lane(queue, handler) for queue in sorted(request.queues) for handler in sorted(request.handlers)]
    return [lane_name(name, fair=fair, alone=alone) for name in names for fair in kinds for alone in (False, True)]
