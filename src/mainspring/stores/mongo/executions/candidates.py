"""The query before a claim: which rows are ready, lane by lane, when the next one is due, and what time it is.

Lanes are found by skipping along the index, the best rows of each from the index alone: rows of other handlers, other
queues or the future are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from ....model.execution import ExecutionRow, lane
from ....model.store.messages import Blocked, ClaimRequest
from ....model.time.instants import Micros
from ...common.limits import Wait, next_slot_check
from ...common.rows import WAITERS_AT_ONCE, Candidate
from ..connection.bulk import lookup, union
from ..connection.database import Database
from ..documents import ALONE, Document, lane_name, ready_lane_of
from ..limits.capacity import add_numbers
from ..limits.parking import LIMITED_FIELDS
from ..limits.wait_lines import first_of_lines, limit_of, waited
from ..limits.waking import Freed, first_waiters, waiters_of, wake_deferred

Lanes: TypeAlias = dict[str, list[Candidate[str]]]

_NAMED_LANES = 200
"""Up to so many lanes are named in the query; beyond that, all lanes that exist are read."""


class Candidates(msgspec.Struct):
    """`lanes` are those that the request may claim from, `staged` the ids among them that trade keys, `limited` those
    that have limits. `turns` are rows that still wait for what has been freed, and whose turn it is: by id, those
    without a share also in the lanes. `numbers` are the slots in use of the keys that slots were freed of. `next_due`
    and `next_recheck` leave these rows out; the latter is when parked rows have to be rechecked. `cancelled` says
    whether any job is cancelled, `limits` whether rows ever had shares or limits, `woken` whether rows were made ready
    for this query."""

    now: Micros = 0
    next_due: Micros | None = None
    next_recheck: Micros | None = None
    limits: bool = False
    woken: bool = False
    cancelled: bool = False
    lanes: Lanes = {}
    alone: Lanes = {}
    staged: set[str] = set()
    limited: set[str] = set()
    turns: dict[str, Document] = {}
    numbers: dict[str, set[Any]] = {}

    def has_late_rows(self) -> bool:
        return self.next_due is not None and self.next_due <= self.now

    def has_due_recheck(self) -> bool:
        return self.next_recheck is not None and self.next_recheck <= self.now

    def is_recheck_too_far(self) -> bool:
        """Whether the next recheck lies further ahead than any is scheduled: the clock was set back."""
        return self.next_recheck is not None and self.next_recheck > next_slot_check(self.now)

    def has_shared_turns(self) -> bool:
        """Whether rows whose turn it is need a tag before they can be claimed."""
        return any("share" in doc for doc in self.turns.values())

    def of(self, request: ClaimRequest) -> Lanes:
        return self.alone if request.alone else self.lanes

    def add_lane(self, name: str, rows: Sequence[Document]) -> None:
        lanes = self.alone if name.endswith(ALONE) else self.lanes
        listed = [*lanes.get(name.removesuffix(ALONE), ()), *((-row["priority"], row["_id"]) for row in rows)]
        lanes[name.removesuffix(ALONE)] = listed
        self.staged.update(row["_id"] for row in rows if row.get("staged"))
        self.limited.update(row["_id"] for row in rows if row.get("limited"))


async def find_candidates(db: Database, request: ClaimRequest | None, most: int, freed: Freed) -> Candidates:
    """`most` rows of each lane, and the rows whose turn it is at what has been freed. Rows with shares and parked ones
    are asked for only where there have ever been any, which the answer says too."""
    waiters = [union(db.executions, *waiters_of(db, freed.keys))] if freed.keys else []
    docs = await _query(db, request, most, [_next_due(db, freed), *_limits(db, freed), *waiters])
    found = Candidates(numbers={key: set() for key in freed.slots})
    for doc in docs:
        _read(found, doc)
    if found.limits and not db.knows_limits:
        db.knows_limits = True
        return await find_candidates(db, request, most, freed)
    await _find_turns(db, found, freed, docs)
    if request is not None:
        for doc in sorted(found.turns.values(), key=lambda doc: (-doc["priority"], doc["_id"])):
            _add_turn(found, request, doc)
    dues = (doc["due"] for doc in docs if "due" in doc and doc["_id"] not in found.turns)
    found.next_due = next(map(int, dues), None)
    db.expect_recheck(None if found.next_recheck is None else found.next_recheck - found.now)
    return found


async def _query(db: Database, request: ClaimRequest | None, most: int, extra: list[dict[str, Any]]) -> list[Document]:
    """Lanes come first in the pipeline: only there does the server skip from one to the next."""
    now = [{"$match": {"_id": "schema"}}, {"$project": {"_id": 0, "now": db.time.now(), "limits": 1}}]
    if request is None or not request.handlers or request.queues == frozenset():
        return await db.meta.aggregate([*now, *extra])
    return await db.executions.aggregate([*_ready(db, request, most), union(db.meta, *now), *extra, _cancelled(db)])


def _read(found: Candidates, doc: Document) -> None:
    if "now" in doc:
        found.now, found.limits = int(doc["now"]), doc.get("limits", False)
    elif "recheck_at" in doc and "line" not in doc:
        found.next_recheck = int(doc["recheck_at"])
    elif "cancelled" in doc:
        found.cancelled = True
    elif "slots" in doc:
        add_numbers(found.numbers, doc)
    elif "rows" in doc and "line" not in doc:
        found.add_lane(doc["_id"], doc["rows"])


async def _find_turns(db: Database, found: Candidates, freed: Freed, docs: Sequence[Document]) -> None:
    """Reads the rows that wait for what has been freed, once the slots in use are known."""
    found.turns, unseen = first_waiters(freed.keys, [doc for doc in docs if "waits_for" in doc])
    if unseen:
        found.woken = await wake_deferred(db, unseen) > 0
    for doc in docs:
        if "line" in doc:
            limit = limit_of(doc["line"])
            left = (limit.concurrency or 0) - len(found.numbers[limit.key])
            count = max(0, min(freed.slots[limit.key], left))
            found.turns |= {row["_id"]: row for row in doc["rows"][:count]}
            if doc["rows"][count:] and "recheck_at" in doc:
                found.next_recheck = earliest(found.next_recheck, int(doc["recheck_at"]))


def _add_turn(found: Candidates, request: ClaimRequest, doc: Document) -> None:
    """Rows with a share need a tag before they can be claimed, and rows of other lanes another worker."""
    queue, handler, *_ = doc["lane"].split("/")
    if "share" not in doc and handler in request.handlers and _is_open(request, queue):
        name = ready_lane_of(doc)
        found.add_lane(name, [doc])
        (found.alone if name.endswith(ALONE) else found.lanes)[name.removesuffix(ALONE)].sort()


def _is_open(request: ClaimRequest, queue: str) -> bool:
    return (request.queues is None or queue in request.queues) and queue not in request.without_queues


class Claimed(msgspec.Struct):
    """The answer to a claim. `parked` rows found no capacity; the first of them is rechecked at `recheck_at`. `woken`:
    rows have become ready; `passed_on`: in the place of others. `cancelled`: there are cancelled jobs, perhaps among
    those of the rows."""

    rows: list[ExecutionRow] = []
    blocked: list[Blocked] = []
    parked: int = 0
    recheck_at: Micros | None = None
    more: bool = False
    alone_waiting: bool = False
    next_due: Micros | None = None
    now: Micros = 0
    woken: bool = False
    passed_on: bool = False
    cancelled: bool = False

    @property
    def used_up(self) -> int:
        """How much of the limit of the request."""
        return len(self.rows) + len(self.blocked) + self.parked

    def add_candidates(self, found: Candidates) -> None:
        self.now = found.now
        self.woken, self.cancelled = self.woken or found.woken, self.cancelled or found.cancelled
        blocked = earliest(*(each.execution.due for each in self.blocked))
        self.next_due = earliest(found.next_due, found.next_recheck, self.recheck_at, blocked)


def earliest(*instants: Micros | None) -> Micros | None:
    return min((each for each in instants if each is not None), default=None)


# --- beside the lanes -----------------------------------------------------------------------------------------------


def _next_due(db: Database, freed: Freed) -> dict[str, Any]:
    """The first one; several of them where it may turn out that it is the turn of some."""
    most = 1 + WAITERS_AT_ONCE if freed.keys else 1
    fields = {"$project": {"due": 1}}
    return union(db.executions, {"$match": {"future": True}}, {"$sort": {"due": 1}}, {"$limit": most}, fields)


def _limits(db: Database, freed: Freed) -> list[dict[str, Any]]:
    """The first recheck of a name under which rows are parked. For keys that slots were freed of: the slots in use, and
    the first rows of each wait line together with its recheck."""
    if not db.knows_limits:
        return []
    names = [waited(Wait(key, "slot")) for key in freed.slots]
    recheck = union(
        db.limits,
        {"$match": {"recheck_at": {"$exists": True}, "_id": {"$nin": names}}},
        {"$sort": {"recheck_at": 1}},
        lookup(db.executions, "_id", "waits_for", {"$limit": 1}, {"$project": {"_id": 1}}),
        {"$match": {"rows": {"$ne": []}}},
        {"$limit": 1},
        {"$project": {"_id": 0, "recheck_at": 1}},
    )
    if not names:
        return [recheck]
    lines = union(
        db.limits,
        {"$match": {"_id": {"$in": names}}},
        {"$unwind": "$wait_lines"},
        first_of_lines(db, max(freed.slots.values()) + 1, LIMITED_FIELDS),
        {"$match": {"rows": {"$ne": []}}},
        {"$project": {"line": "$wait_lines", "recheck_at": 1, "rows": 1}},
    )
    used = {"$match": {"slots.key": {"$in": list(freed.slots)}}}
    return [recheck, union(db.executions, used, {"$project": {"_id": 0, "slots": 1}}), lines]


def _cancelled(db: Database) -> dict[str, Any]:
    """Read after the rows: if no job is cancelled then, none of these rows was added after its job was cancelled."""
    found = {"$project": {"_id": 0, "cancelled": {"$literal": True}}}
    return union(db.jobs, {"$match": {"cancelled": {"$exists": True}}}, {"$limit": 1}, found)


# --- lanes ----------------------------------------------------------------------------------------------------------


def _ready(db: Database, request: ClaimRequest, most: int) -> list[dict[str, Any]]:
    order, fields = {"priority": -1, "tag": 1, "_id": 1}, {"priority": 1, "staged": 1, "limited": 1}
    best = lookup(db.executions, "_id", "ready", {"$sort": order}, {"$limit": most}, {"$project": fields})
    return [*_lanes(request, fair=db.knows_limits), best, {"$match": {"rows": {"$ne": []}}}]


def _lanes(request: ClaimRequest, *, fair: bool) -> list[dict[str, Any]]:
    """The lanes that have ready rows for this request; those of shares only if there are any."""
    names = _names(request, (False, True) if fair else (False,))
    if names is not None:
        return [{"$match": {"ready": {"$in": names}}}, {"$group": {"_id": "$ready"}}]
    parts = {"$split": ["$_id", "/"]}
    tests: list[dict[str, Any]] = [{"$in": [{"$arrayElemAt": [parts, 1]}, {"$literal": sorted(request.handlers)}]}]
    queue = {"$arrayElemAt": [parts, 0]}
    if request.queues is not None:
        tests.append({"$in": [queue, {"$literal": sorted(request.queues)}]})
    if request.without_queues:
        tests.append({"$not": {"$in": [queue, {"$literal": sorted(request.without_queues)}]}})
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
    queues = sorted(request.queues - request.without_queues)
    names = [lane(queue, handler) for queue in queues for handler in sorted(request.handlers)]
    return [lane_name(name, fair=fair, alone=alone) for name in names for fair in kinds for alone in (False, True)]
