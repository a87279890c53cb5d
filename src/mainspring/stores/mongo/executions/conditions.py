"""The conditions of a query on execution documents, and the index along which its candidates are found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ....model.execution import FINAL, LIVE, State, lane
from ....model.store.messages import ExecutionQuery
from ....model.time.instants import Micros
from ....model.values.reading import SYSTEM_PREFIX
from ...common.ids import id_in_trace, id_range
from ..connection.database import Database
from .incarnations import ids_of

VISIBLE = {"hidden": {"$exists": False}}
RARE = FINAL - {State.COMPLETED}
_WITHOUT_HIDDEN = frozenset({"labels", "parent", "trace", "tenant"})

Filter = dict[str, Any]

_json = msgspec.json.Encoder().encode
_WORKER = r'"worker":("(?:[^"\\]|\\.)*")'


class Walk(NamedTuple):
    """A walk along one index: it finds the candidates that meet these conditions, in the order of their ids."""

    hint: str
    wanted: Filter


class Conditions(NamedTuple):
    """All parts must hold. `walks` are the indexes that serve some of them, the one that narrows most first."""

    parts: list[Filter]
    walks: list[Walk]

    @property
    def all(self) -> Filter:
        return {"$and": self.parts}

    @property
    def counted_on(self) -> Walk | None:
        """The index whose keys are exactly the rows that match, if there is one. Hidden rows have no label, parent,
        trace or tenant."""
        keys = [walk for walk in self.walks if walk.hint in _WITHOUT_HIDDEN]
        return keys[0] if len(self.walks) == 1 and keys and self.parts == [VISIBLE, keys[0].wanted] else None


async def conditions(db: Database, query: ExecutionQuery, now: Micros | None) -> Conditions | None:
    """The conditions of a query; None if nothing can match. Only `longer_than` needs `now`."""
    states = frozenset(State) if query.states is None else query.states
    jobs = await _job_ids(db, query)
    if not states or jobs == [] or query.workers == frozenset():
        return None
    parts = [VISIBLE, _states(states, by_job=jobs is not None), *_created(query), *_equal(query), *_rows(query, now)]
    if jobs is not None:
        parts.append({"job_id": _one_of(jobs)})
    if query.before is not None:
        parts.append({"_id": {"$lt": query.before}})
    if query.after is not None:
        parts.append({"_id": {"$gt": query.after}})
    return Conditions([part for part in parts if part], list(_walks(query, states, jobs)))


async def _job_ids(db: Database, query: ExecutionQuery) -> list[str] | None:
    if query.job is None:
        return None if query.job_id is None else [query.job_id]
    ids = await ids_of(db, query.job)
    return ids if query.job_id is None else [id for id in ids if id == query.job_id]


def _one_of(values: Sequence[Any]) -> Any:
    return {"$in": list(values)} if len(values) > 1 else values[0]


def _states(states: frozenset[State], *, by_job: bool) -> Filter:
    """Live rows, and the few endings other than completed, have indexes of their own."""
    if states <= RARE:
        return {"rare": True, "state": {"$in": _names(states)}}
    kinds = _kinds(states)
    chosen = {} if states >= frozenset(State) else {"state": {"$in": _names(states)}}
    if len(kinds) == 1:
        return {"live": kinds[0], **chosen}
    return {"live": {"$in": kinds}, **chosen} if by_job else chosen


def _kinds(states: frozenset[State]) -> list[bool]:
    return [kind for kind, members in ((True, LIVE), (False, FINAL)) if states & members]


def _names(states: frozenset[State]) -> list[str]:
    return sorted(state.value for state in states)


def _equal(query: ExecutionQuery) -> list[Filter]:
    found: list[Filter] = [
        {name: value} for name, value in (("tenant", query.tenant), ("parent_id", query.parent_id)) if value is not None
    ]
    found += [{"labels": label} for label in query.labels]
    if query.trigger is not None:  # the default is left out of documents
        found.append({"trigger": None if query.trigger == "enqueue" else query.trigger})
    if query.trace_id is not None:
        found.append(_traced(query.trace_id))
    return found


def _traced(trace_id: str) -> Filter:
    """A trace id comes from another system, or is the id of the execution itself."""
    own = id_in_trace(trace_id)
    if own is None or own.replace("-", "") != trace_id:
        return {"trace_id": trace_id}
    return {"$or": [{"trace_id": trace_id}, {"_id": own, "trace_id": None}]}


def _created(query: ExecutionQuery) -> list[Filter]:
    """A range of creation times is a range of ids, with some slack, plus the strays of that range."""
    created = created_between(query)
    return [{"created": created}, {"$or": [{"_id": ids_between(query)}, {"stray": True}]}] if created else []


def created_between(query: ExecutionQuery) -> Filter:
    ends = (("$gte", query.created_from), ("$lt", query.created_to))
    return {name: at for name, at in ends if at is not None}


def ids_between(query: ExecutionQuery) -> Filter:
    """The ids of rows created in the range of the query, except strays."""
    first, last = id_range(query.created_from, query.created_to)
    return {name: id for name, id in (("$gte", first), ("$lt", last)) if id is not None}


# --- conditions that no index serves --------------------------------------------------------------------------------


def _rows(query: ExecutionQuery, now: Micros | None) -> list[Filter]:
    found: list[Filter] = []
    if query.queue is not None and query.handler is not None:
        found.append({"lane": lane(query.queue, query.handler)})
    elif query.queue is not None:
        found.append({"lane": {"$regex": f"^{re.escape(query.queue)}/"}})
    elif query.handler is not None:
        found.append({"lane": {"$regex": f"/{re.escape(query.handler)}$"}})
    if query.reason is not None:
        found.append({"reason": query.reason})
    if query.error_text is not None:
        found.append({"error": {"$regex": re.escape(query.error_text), "$options": "i"}})
    if query.workers is not None:
        found.append(_run_by(query.workers))
    if query.longer_than is not None:
        found.append(_longer(query.longer_than, now))
    if query.without_system:
        found.append({"job": {"$not": {"$regex": f"^{re.escape(SYSTEM_PREFIX)}"}}})
    return found


def _run_by(workers: frozenset[str]) -> Filter:
    """Attempts are stored as JSON texts, so the worker is compared as JSON text too."""
    found = {"$regexFind": {"input": {"$ifNull": [{"$last": "$attempts"}, ""]}, "regex": _WORKER}}
    names = {"$literal": sorted(_json(worker).decode() for worker in workers)}
    ran = {"$let": {"vars": {"found": found}, "in": {"$in": [{"$first": "$$found.captures"}, names]}}}
    return {"$or": [{"owner": {"$in": sorted(workers)}}, {"owner": {"$exists": False}, "$expr": ran}]}


def _longer(than: Micros, now: Micros | None) -> Filter:
    duration = {"$subtract": ["$finished", "$started"]}
    ended = {"finished": {"$exists": True}, "started": {"$exists": True}, "$expr": {"$gt": [duration, than]}}
    running = {"state": "running", "started": {"$lt": (now or 0) - than}}
    return {"$or": [running, ended]}


# --- indexes --------------------------------------------------------------------------------------------------------


def _walks(query: ExecutionQuery, states: frozenset[State], jobs: list[str] | None) -> list[Walk]:
    """The walks of a query. Each repeats the partial filter of its index, so that the server uses it."""
    found = [Walk("labels", {"labels": label}) for label in query.labels]
    if query.parent_id is not None:
        found.append(Walk("parent", {"parent_id": query.parent_id}))
    if query.trace_id is not None and "trace_id" in (traced := _traced(query.trace_id)):
        found.append(Walk("trace", traced))
    if jobs is not None and states <= RARE:
        found.append(Walk("job_rare", {"job_id": _one_of(jobs), **_states(states, by_job=True)}))
    elif jobs is not None:
        found.append(Walk("job", {"job_id": _one_of(jobs), "live": {"$in": _kinds(states)}}))
    elif states <= RARE:
        found.append(Walk("rare", _states(states, by_job=False)))
    if query.tenant is not None:
        found.append(Walk("tenant", {"tenant": query.tenant}))
    if jobs is None and states <= LIVE:
        found.append(Walk("live", {"live": True, "state": {"$in": _names(states)}}))
    if query.trigger is not None and query.trigger != "enqueue":
        found.append(Walk("trigger", {"trigger": query.trigger}))
    return found
