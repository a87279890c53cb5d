"""The query before a claim: which rows are ready, lane by lane, when the next one is due, and what time it is.

Lanes are found by skipping along the index, the best rows of each from the index alone: rows of other handlers, other
queues or the future are never read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from ....model.execution import lane
from ....model.store.messages import ClaimRequest
from ....model.time.instants import Micros
from ...common.limits import next_slot_check
from ...common.rows import Candidate
from ..connection.database import Database
from ..documents import ALONE, Document, lane_name
from ..limits.wait_lines import TOKENS

Lanes: TypeAlias = dict[str, list[Candidate[str]]]

_NAMED_LANES = 200
"""Up to so many lanes are named in the query; beyond that, all lanes that exist are read."""


class Candidates(msgspec.Struct):
    """`lanes` are those that the request may claim from, `staged` the ids among them that trade keys, `limited` those
    that have limits. `next_recheck` is when parked rows have to be rechecked. `waiters` says whether any row waits for
    a key or a slot, `cancelled` whether any job is cancelled, `limits` whether rows ever had shares or limits, `woken`
    whether rows were made ready for this query."""

    now: Micros = 0
    next_due: Micros | None = None
    next_recheck: Micros | None = None
    limits: bool = False
    waiters: bool = False
    woken: bool = False
    cancelled: bool = False
    lanes: Lanes = {}
    alone: Lanes = {}
    staged: set[str] = set()
    limited: set[str] = set()

    def has_late_rows(self) -> bool:
        return self.next_due is not None and self.next_due <= self.now

    def has_due_recheck(self) -> bool:
        return self.next_recheck is not None and self.next_recheck <= self.now

    def is_recheck_too_far(self) -> bool:
        """Whether the next recheck lies further ahead than any is scheduled: the clock was set back."""
        return self.next_recheck is not None and self.next_recheck > next_slot_check(self.now)

    def of(self, request: ClaimRequest) -> Lanes:
        return self.alone if request.alone else self.lanes


async def find_candidates(db: Database, request: ClaimRequest | None, most: int, *, waiters: bool) -> Candidates:
    """`most` rows of each lane; `waiters` asks whether any row waits for what an ending frees. Rows with shares and
    parked ones are asked for only where there have ever been any, which the answer says too."""
    found = Candidates()
    extra = [_next_due(db), *([_next_recheck(db)] if db.knows_limits else []), *([_waiters(db)] if waiters else [])]
    for doc in await _query(db, request, most, extra):
        _read(found, doc)
    db.expect_recheck(None if found.next_recheck is None else found.next_recheck - found.now)
    if found.limits and not db.knows_limits:
        db.knows_limits = True
        return await find_candidates(db, request, most, waiters=waiters)
    return found


async def _query(db: Database, request: ClaimRequest | None, most: int, extra: list[dict[str, Any]]) -> list[Document]:
    """Lanes come first in the pipeline: only there does the server skip from one to the next."""
    now = [{"$match": {"_id": "schema"}}, {"$project": {"_id": 0, "now": db.time.now(), "limits": 1}}]
    if request is None or not request.handlers or request.queues == frozenset():
        return await db.meta.aggregate([*now, *extra])
    clock = {"$unionWith": {"coll": db.meta.name, "pipeline": now}}
    return await db.executions.aggregate([*_ready(db, request, most), clock, *extra, _cancelled(db)])


def _read(found: Candidates, doc: dict[str, Any]) -> None:
    if "now" in doc:
        found.now, found.limits = int(doc["now"]), doc.get("limits", False)
    elif "due" in doc:
        found.next_due = int(doc["due"])
    elif "recheck_at" in doc:
        found.next_recheck = int(doc["recheck_at"])
    elif "waits" in doc:
        found.waiters = True
    elif "cancelled" in doc:
        found.cancelled = True
    else:
        name, rows = doc["_id"], doc["rows"]
        lanes = found.alone if name.endswith(ALONE) else found.lanes
        lanes[name.removesuffix(ALONE)] = [(-row["priority"], row["_id"]) for row in rows]
        found.staged.update(row["_id"] for row in rows if row.get("staged"))
        found.limited.update(row["_id"] for row in rows if row.get("limited"))


# --- beside the lanes -----------------------------------------------------------------------------------------------


def _next_due(db: Database) -> dict[str, Any]:
    pipeline = [{"$match": {"future": True}}, {"$sort": {"due": 1}}, {"$limit": 1}, {"$project": {"_id": 0, "due": 1}}]
    return {"$unionWith": {"coll": db.executions.name, "pipeline": pipeline}}


def _next_recheck(db: Database) -> dict[str, Any]:
    """The first recheck of a name under which rows are parked."""
    parked = {
        "from": db.executions.name,
        "localField": "_id",
        "foreignField": "waits_for",
        "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}],
        "as": "rows",
    }
    pipeline = [
        {"$match": {"recheck_at": {"$exists": True}}},
        {"$sort": {"recheck_at": 1}},
        {"$lookup": parked},
        {"$match": {"rows": {"$ne": []}}},
        {"$limit": 1},
        {"$project": {"_id": 0, "recheck_at": 1}},
    ]
    return {"$unionWith": {"coll": db.limits.name, "pipeline": pipeline}}


def _waiters(db: Database) -> dict[str, Any]:
    found = {"$project": {"_id": 0, "waits": {"$literal": True}}}
    pipeline = [{"$match": {"waits_for": {"$lt": TOKENS}}}, {"$limit": 1}, found]
    return {"$unionWith": {"coll": db.executions.name, "pipeline": pipeline}}


def _cancelled(db: Database) -> dict[str, Any]:
    """Read after the rows: if no job is cancelled then, none of these rows was added after its job was cancelled."""
    found = {"$project": {"_id": 0, "cancelled": {"$literal": True}}}
    pipeline = [{"$match": {"cancelled": {"$exists": True}}}, {"$limit": 1}, found]
    return {"$unionWith": {"coll": db.jobs.name, "pipeline": pipeline}}


# --- lanes ----------------------------------------------------------------------------------------------------------


def _ready(db: Database, request: ClaimRequest, most: int) -> list[dict[str, Any]]:
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
    return [*_lanes(request, fair=db.knows_limits), {"$lookup": lookup}, {"$match": {"rows": {"$ne": []}}}]


def _lanes(request: ClaimRequest, *, fair: bool) -> list[dict[str, Any]]:
    """The lanes that have ready rows for this request; those of shares only if there are any."""
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
