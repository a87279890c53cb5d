"""Enqueue inside a transaction that the caller holds open in a session of PyMongo, blocking or async (ENQ-2).

A write that a unique index refuses would end the caller's transaction. So keys are looked up first: in the session,
which sees what the transaction itself has written, and outside of it, which sees what was committed since it began. Two
transactions that take the same key at the very same time are left to the server: it ends one with a write conflict,
which carries the label by which `with_transaction` runs it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from typing import Any

import msgspec
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import ClientSession

from ....core.ports import Topic
from ....model.errors import InvalidValue, StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import Added
from ...common.rows import in_slot, overlap_choices, skipped_record
from ..executions.documents import document
from ..wakeups import news_document
from .database import collection_name

_ALLOWED = "a ClientSession or AsyncClientSession of PyMongo with an open transaction"
STANDALONE = (
    "this MongoDB server stands alone and has no transactions; make it a replica set, one member is enough, "
    "or enqueue without a session"
)


class Place(msgspec.Struct, frozen=True):
    """Where our collections are, seen from the caller's client."""

    database: str
    prefix: str
    transactions: bool


class Call(msgspec.Struct, frozen=True):
    """One call of a collection; `inside` the caller's transaction, or beside it."""

    collection: str
    method: str
    arguments: tuple[Any, ...]
    inside: bool = True
    options: dict[str, Any] = {}


Steps = Generator[Call, Any, list[Added]]


def add_in(
    place: Place, session: Any, executions: Sequence[ExecutionRow], unknown: dict[str, str]
) -> list[Added] | Awaitable[list[Added]]:
    """`unknown` are names of jobs by id that have to be registered first."""
    if not isinstance(session, ClientSession | AsyncClientSession):
        raise InvalidValue("connection", type(session).__name__, _ALLOWED)
    if not place.transactions:
        raise StoreError(STANDALONE)
    if not session.in_transaction:
        remedy = "Call session.start_transaction() first, or enqueue without a session"
        raise InvalidValue("connection", "a session without a transaction", _ALLOWED, remedy)
    steps = _add(executions, unknown)
    if isinstance(session, AsyncClientSession):
        return _run_async(place, session, steps)
    return _run(place, session, steps)


def _run(place: Place, session: ClientSession, steps: Steps) -> list[Added]:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = _called(place, session, call)


async def _run_async(place: Place, session: AsyncClientSession, steps: Steps) -> list[Added]:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = await _called(place, session, call)


def _called(place: Place, session: Any, call: Call) -> Any:
    collection = session.client[place.database][collection_name(place.prefix, call.collection)]
    options = call.options | ({"session": session} if call.inside else {})
    return getattr(collection, call.method)(*call.arguments, **options)


# --- steps ----------------------------------------------------------------------------------------------------------


def _add(executions: Sequence[ExecutionRow], unknown: dict[str, str]) -> Steps:
    if not executions:
        return []
    for job_id, name in sorted(unknown.items()):
        new = {"$setOnInsert": {"job": name, "last_number": 0, "folds": 0}}
        yield Call("incarnations", "update_one", ({"_id": job_id}, new), inside=False, options={"upsert": True})
    known = set((yield from _both("distinct", "_id", {"_id": {"$in": [e.id for e in executions]}}, together=True)))
    held: dict[tuple[str, str], str] = {}
    added: list[Added] = []
    documents: list[dict[str, Any]] = []
    for execution in executions:
        answer, row = (
            (Added(execution.id, "duplicate"), None) if execution.id in known else (yield from _judge(execution, held))
        )
        known.add(execution.id)
        added.append(answer)
        if row is not None:
            documents.append(document(row))
    if documents:
        yield Call("executions", "insert_many", (documents,))
        yield Call("news", "insert_one", (news_document(Topic.WORK),))
    return added


def _judge(
    execution: ExecutionRow, held: dict[tuple[str, str], str]
) -> Generator[Call, Any, tuple[Added, ExecutionRow | None]]:
    """What becomes of it, and the row to insert. `held` are keys that rows before it in this batch take."""
    if execution.state.final:
        return Added(execution.id, "added"), execution
    holder = yield from _holder("unique_key", execution.unique_key, held)
    if holder is not None:
        return Added(execution.id, "unique_taken", holder), None
    row = execution
    if choices := overlap_choices(execution):
        holders: dict[str, str | None] = {}
        for key in choices:
            holders[key] = yield from _holder("overlap_key", key, held)
            if holders[key] is None:
                row = in_slot(execution, key)
                break
        else:
            return Added(execution.id, "skipped", holders[choices[0]]), skipped_record(execution)
    for field, taken in (("unique_key", row.unique_key), ("overlap_key", row.overlap_key)):
        if taken is not None:
            held[field, taken] = row.id
    return Added(execution.id, "added"), row


def _holder(field: str, key: str | None, held: dict[tuple[str, str], str]) -> Generator[Call, Any, str | None]:
    if key is None:
        return None
    if (field, key) in held:
        return held[field, key]
    found = yield from _both("find_one", {"live": True, field: key}, {"_id": 1})
    return None if found is None else found["_id"]


def _both(method: str, *arguments: Any, together: bool = False) -> Generator[Call, Any, Any]:
    """The first answer of the two sides that is not empty, or both answers together."""
    inside = yield Call("executions", method, arguments)
    if inside and not together:
        return inside
    outside = yield Call("executions", method, arguments, inside=False)
    return [*inside, *outside] if together else outside
