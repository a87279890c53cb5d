"""Searches that examine a limited number of rows: they find candidates along one index and check the other conditions
on each.

Rows created in a range of time lie in a range of ids, except strays. Strays are searched separately, along an index of
their own, and both lists are merged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....model.store.messages import ExecutionQuery, ExecutionsFound
from ..connection.database import Database
from ..documents import Document, execution_of
from .conditions import Conditions, Walk, created_between, ids_between

_MOST_SCATTERED = 2_500
"""How many candidates one search checks if they are scattered over the collection, where each may be a read from disk.
Those of the pages before do not count."""
_TOGETHER = frozenset({"_id_", "live"})
"""Indexes along which neighbouring entries are neighbouring documents."""
_FIRST = 200
"""How many candidates are checked first: in most lists, many of them match."""
_WITHOUT_DOCUMENTS = frozenset({"labels", "parent", "trace", "job", "tenant", "trigger"})
"""Indexes whose keys alone say that a row is a candidate."""
_BY_ID = Walk("_id_", {})
_STRAYS = Walk("stray", {"stray": True})


class Found(NamedTuple):
    """`stopped_at` is the last candidate that was checked, if there are more."""

    docs: list[Document]
    stopped_at: str | None


async def search(db: Database, query: ExecutionQuery, wanted: Conditions, budget: int) -> ExecutionsFound:
    few = min(budget, _MOST_SCATTERED + query.offset + query.limit)
    walks = await _walks(db, query, wanted, few)
    found = [await _along(db, query, wanted, walk, budget if walk.hint in _TOGETHER else few) for walk in walks]
    docs = sorted((doc for each in found for doc in each.docs), key=_id, reverse=not query.oldest_first)
    last = (min if query.oldest_first else max)((each.stopped_at for each in found if each.stopped_at), default=None)
    if last is not None:
        docs = [doc for doc in docs if (doc["_id"] <= last if query.oldest_first else doc["_id"] >= last)]
    most = query.offset + query.limit
    rows = [execution_of(doc) for doc in docs[query.offset : most]]
    return ExecutionsFound(rows, last if len(docs) < most else None)


async def count_among(db: Database, query: ExecutionQuery, wanted: Conditions, cap: int, budget: int) -> int:
    """How many of the first candidates match."""
    total = 0
    for walk in await _walks(db, query, wanted, budget):
        counted = [*_candidates(query, walk, budget), {"$match": wanted.all}, {"$limit": cap}, {"$count": "n"}]
        total += sum([int(doc["n"]) for doc in await db.executions.aggregate(counted, hint=walk.hint)])
    return min(total, cap)


def _id(doc: Document) -> str:
    return str(doc["_id"])


async def _walks(db: Database, query: ExecutionQuery, wanted: Conditions, budget: int) -> list[Walk]:
    """The first index with fewer candidates than the budget, or else the first of all. Indexes that can be counted
    without reading documents come first. If only one index is left to choose, it is not counted."""
    chosen = wanted.walks[0] if wanted.walks else _BY_ID
    left = sorted(wanted.walks, key=lambda walk: walk.hint not in _WITHOUT_DOCUMENTS)
    while left and left != [chosen]:
        walk = left.pop(0)
        counted = [*_candidates(query, walk, budget), {"$count": "n"}]
        if sum([int(doc["n"]) for doc in await db.executions.aggregate(counted, hint=walk.hint)]) < budget:
            chosen = walk
            break
    if not (created := created_between(query)):
        return [chosen]
    near = {"_id": ids_between(query), "stray": {"$exists": False}}
    return [
        Walk(chosen.hint, {"$and": [chosen.wanted, near]}),
        Walk(_STRAYS.hint, {**_STRAYS.wanted, **{"created": created}}),
    ]


def _candidates(query: ExecutionQuery, walk: Walk, budget: int) -> list[dict[str, Any]]:
    page = [{"_id": {end: id}} for end, id in (("$lt", query.before), ("$gt", query.after)) if id is not None]
    return [{"$match": {"$and": [walk.wanted, *page]}}, {"$sort": _order(query)}, {"$limit": budget}]


def _order(query: ExecutionQuery) -> dict[str, int]:
    return {"_id": 1 if query.oldest_first else -1}


async def _along(db: Database, query: ExecutionQuery, wanted: Conditions, walk: Walk, budget: int) -> Found:
    """The server reads thousands of candidates at once, however few it needs, so it is given a few first. If these do
    not fill the page, the last candidate is found before the others are checked, so that none is passed over if some
    vanish meanwhile."""
    most, few = query.offset + query.limit, min(budget, max(_FIRST, 2 * (query.offset + query.limit)))
    matching = [*_candidates(query, walk, few), {"$match": wanted.all}, {"$limit": most}]
    docs = await db.executions.aggregate(matching, hint=walk.hint)
    if len(docs) >= most:
        return Found(docs, None)
    page, order = _candidates(query, walk, budget)[0]["$match"], list(_order(query).items())
    last = await db.executions.find(page, {"_id": 1}, sort=order, skip=budget - 1, limit=2, hint=walk.hint)
    stopped_at = last[0]["_id"] if len(last) > 1 else None
    looked_at = [] if stopped_at is None else [{"_id": {"$lte" if query.oldest_first else "$gte": stopped_at}}]
    among = {"$and": [page, *looked_at, *wanted.parts]}
    docs = await db.executions.find(among, sort=order, limit=most, hint=walk.hint)
    return Found(docs, stopped_at if len(docs) < most else None)
